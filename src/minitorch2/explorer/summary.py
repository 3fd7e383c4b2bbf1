"""The summary of a job: what was compiled, why graphs broke, and what was compiled again.

A break keeps operators apart, and makes more compilations necessary. So its cost is operators of
the graph that it ended, those of the continuations behind it, and the seconds to compile these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from minitorch2.explorer.callers import Calls, tree_of
from minitorch2.explorer.job import Job, Process
from minitorch2.explorer.store import Break, Compilation

CACHES = {
    "graphs": ("graphs_compiled", "graphs_loaded", "graphs_shared", "graphs_bypassed"),
    "kernels": ("kernels_compiled", "kernels_loaded", "kernels_shared"),
}
"""The counters of each cache."""


@dataclass(frozen=True)
class BreakCost:
    """A line at which graphs broke.

    Attributes:
        found: the break.
        times: how many compilations ended there, in all processes.
        before: operators of the graphs that it ended.
        behind: operators of the continuations' graphs.
        seconds: the time to compile the continuations.
    """

    found: Break
    times: int
    before: int
    behind: int
    seconds: float

    def lines(self) -> Iterator[str]:
        """Yield the report on this line."""
        yield f"{self.times}x {self.found.place}: {self.found.cause} [{self.found.code}]"
        more = f"{self.seconds:.2f} s to compile the rest"
        yield f"    operators: {self.before} before, {self.behind} behind; {more}"
        if self.found.fix:
            yield f"    Fix: {self.found.fix}"
        yield from (f"    {line}" for line in self.found.stack[:-1])


def break_costs(job: Job) -> list[BreakCost]:
    """Return the cost of each line at which graphs broke, the most expensive first."""
    found: dict[tuple[str, str], list[tuple[Break, Compilation, Process]]] = {}
    for process in job.processes:
        for compilation in process.store.compilations.values():
            for each in compilation.breaks:
                found.setdefault((each.place, each.code), []).append((each, compilation, process))
    costs = map(_cost, found.values())
    return sorted(costs, key=lambda cost: (cost.seconds, cost.behind), reverse=True)


def _cost(group: list[tuple[Break, Compilation, Process]]) -> BreakCost:
    rests = [rest for _, broken, process in group for rest in _rests(process, broken)]
    return BreakCost(
        group[0][0],
        len(group),
        sum(broken.operators for _, broken, _ in group),
        sum(rest.operators for rest in rests),
        sum(sum(rest.seconds.values()) for rest in rests),
    )


def _rests(process: Process, broken: Compilation) -> Iterator[Compilation]:
    for other in process.store.compilations.values():
        if other.resumes is not None and other.resumes[0] == broken.id:
            yield other


def summary_data(job: Job) -> dict[str, Any]:
    """Return the summary as what JSON can hold."""
    counts = sum((process.counts for process in job.processes), Counter[str]())
    return {
        "processes": [process.facts | {"damaged": process.damaged} for process in job.processes],
        "compilations": sum(len(process.store.compilations) for process in job.processes),
        "counts": dict(counts),
        "seconds": seconds_of(job),
        "caches": {c: {name: counts[name] for name in names} for c, names in CACHES.items()},
        "calls": asdict(calls_of(job)),
        "breaks": [asdict(cost) for cost in break_costs(job)],
        "recompiles": recompiles_of(job),
        "as_is": [line for process in job.processes for line in process.of("as_is")],
        "fallbacks": [line for process in job.processes for line in process.of("fallback")],
    }


def calls_of(job: Job) -> Calls:
    """Return the calls that led to the compilations of all processes."""
    return tree_of(each for p in job.processes for each in p.store.compilations.values())


def seconds_of(job: Job) -> dict[str, float]:
    """Return the seconds of each phase in all processes, the longest first."""
    total: Counter[str] = Counter()
    for process in job.processes:
        for phase in process.of("phase"):
            total[phase["name"]] += phase["own"]
    return dict(total.most_common())


def recompiles_of(job: Job) -> list[dict[str, Any]]:
    """Return each guard that failed, with the last values and the number of failures."""
    last: dict[tuple[object, ...], dict[str, Any]] = {}
    for process in job.processes:
        for line in process.of("recompile"):
            key = process.name, line["function"], line["entry"], line["guard"], line["what"]
            last[key] = line | {"process": process.name}
    return list(last.values())


def summary_lines(job: Job) -> Iterator[str]:
    """Yield the summary as text."""
    data = summary_data(job)
    names = ", ".join(process.name for process in job.processes)
    yield f"{_number(len(job.processes), 'process', 'processes')}: {names}"
    lost = sum(process.damaged for process in job.processes)
    if lost:
        yield f"{lost} damaged lines were left out: a process has not ended as it should"
    counts = data["counts"]
    compilations = _number(data["compilations"], "compilation", "compilations")
    yield f"{compilations}, {_number(counts.get('graphs', 0), 'graph', 'graphs')}"
    phases = ", ".join(f"{name} {s:.2f}" for name, s in data["seconds"].items())
    yield f"seconds: {sum(data['seconds'].values()):.2f} ({phases})"
    for cache, found in data["caches"].items():
        if not any(found.values()):
            continue
        yield f"{cache}: " + ", ".join(
            f"{n} {name.split('_')[1]}" for name, n in found.items() if n
        )
    costs = break_costs(job)
    broken = sum(cost.times for cost in costs)
    yield from _section("graph breaks", [cost.lines() for cost in costs], broken, "line")
    causes: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for each in data["recompiles"]:
        causes.setdefault(tuple(each[name] for name in CAUSE), []).append(each)
    everywhere = {process.name for process in job.processes}
    reasons = [_recompile_lines(each, everywhere) for each in causes.values()]
    yield from _section("compiled again", reasons, counts.get("recompiles", 0), "reason")
    yield from _section("functions that run in Python", map(_as_is_lines, data["as_is"]))
    yield from _section("fallbacks", _fallbacks(data["fallbacks"]))
    yield "calls that compiled:"
    yield from (f"  {line}" for line in calls_of(job).lines())


def _number(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _section(title: str, entries: Any, times: int = 0, one: str = "") -> Iterator[str]:
    """Yield a title with the number of events, and of their entries if these are fewer."""
    found = list(entries)
    fewer = f", by {_number(len(found), one, f'{one}s')}" if times > len(found) else ""
    yield f"{title}: {max(times, len(found))}{fewer}"
    for lines in found:
        yield from (f"  {line}" for line in lines)


CAUSE = ("function", "guard", "what", "line", "fix")
"""What failures have in common that are told once: they differ in processes, entries and values."""


def _recompile_lines(equal: list[dict[str, Any]], everywhere: set[str]) -> Iterator[str]:
    first, last = equal[0], equal[-1]
    where = f" (needed by {first['line']})" if first["line"] else ""
    least, most = min(each["entry"] for each in equal), max(each["entry"] for each in equal)
    entries = f"entry {least}" if least == most else f"entries {least} to {most}"
    name = f"{first['function']} {entries}"
    found = {each["process"] for each in equal}
    only = "" if found == everywhere else f", only in {', '.join(sorted(found))}"
    yield f"{sum(each['times'] for each in equal)}x {name}: {first['guard']}{where}{only}"
    yield f"    {first['what']} was {first['expected']}, now {first['actual']}"
    if (last["expected"], last["actual"]) != (first["expected"], first["actual"]):
        yield f"    last: {last['what']} was {last['expected']}, now {last['actual']}"
    yield f"    Fix: {first['fix']}"


def _as_is_lines(line: dict[str, Any]) -> Iterator[str]:
    yield f"{line['function']} at {line['place']}: {line['cause']} [{line['code']}]"


def _fallbacks(lines: list[dict[str, Any]]) -> Iterator[list[str]]:
    texts = Counter(f"{line['operator']} at {line['line']}: {line['reason']}" for line in lines)
    yield from ([f"{n}x {text}"] for text, n in texts.most_common())
