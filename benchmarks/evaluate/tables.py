"""Tables and the figure of the evaluation, made of its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import geometric_mean, median

from rich.table import Table

from benchmarks import figure4 as cumulative
from benchmarks.compilers import EAGER, OURS
from benchmarks.evaluate.rows import INFERENCE, NOT_OFFERED, TRAINING, Row
from benchmarks.measure import Result

Group = tuple[str, str, str, str]
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Grid:
    """A table of texts."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def printed(self) -> Table:
        """The table for a terminal."""
        table = Table(*self.columns, title=self.title)
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """The table for a page."""
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def groups(found: list[Row]) -> dict[Group, list[Row]]:
    """The rows by suite, mode, dtype and device, those of one device together."""
    grouped: dict[Group, list[Row]] = {}
    for row in found:
        asked = row.question
        dtype = asked.dtype + ", frozen" * asked.freezing
        grouped.setdefault((asked.suite, asked.mode, dtype, asked.device), []).append(row)
    return dict(sorted(grouped.items(), key=lambda item: (item[0][3], item[0])))


def backends_of(found: list[Row]) -> list[str]:
    """The backends in the order in which they were measured."""
    return list(dict.fromkeys(row.question.backend for row in found))


def on_device(found: list[Row], device: str) -> list[str]:
    """The backends that were measured on a device."""
    return backends_of([row for row in found if row.question.device == device])


def compared(members: list[Row], names: list[str]) -> set[str]:
    """The cases that each of these backends ran, and ran right: only these are comparable.

    A backend that offers none of the members has no say.
    """
    refusing = set(backends_of(members)) - set(backends_of([r for r in members if r.found.offered]))
    right = [
        {row.question.case for row in members if row.question.backend == name and row.speedup}
        for name in names
        if name not in refusing
    ]
    return set.intersection(*right) if right else set()


def grid(title: str, found: list[Row], cell: Callable[[list[Row], set[str]], str]) -> Grid:
    """A line for each group of rows, a column for each backend."""
    names, lines = backends_of(found), []
    for group, members in groups(found).items():
        common = compared(members, on_device(found, group[3]))
        by_backend = [[row for row in members if row.question.backend == name] for name in names]
        cells = (cell(each, common) if each else NOT_MEASURED for each in by_backend)
        lines.append((*group, str(len(common)), *cells))
    return Grid(title, ("suite", "mode", "dtype", "device", "compared", *names), lines)


def speedups(members: list[Row], common: set[str]) -> str:
    """`23/24 1.31x`: models that work, and the geometric mean of those that are compared.

    Rows that a backend does not offer are not counted.
    """
    offered = [row for row in members if row.found.offered]
    works = [row for row in offered if row.speedup]
    shown = f"{len(works)}/{len(offered)} {mean(works, common)}".strip()
    return shown if offered else NOT_OFFERED


def mean(members: list[Row], common: set[str]) -> str:
    """The geometric mean of the speedups of compared cases; empty if there are none."""
    ratios = [row.speedup for row in members if row.speedup and row.question.case in common]
    return f"{geometric_mean(ratios):.2f}x" if ratios else ""


def compile_times(members: list[Row], common: set[str]) -> str:
    """`2.1 / 0.8`: the median seconds of first calls of compared cases, cold and warm."""
    works = [row.found for row in members if row.speedup and row.question.case in common]
    if not works:
        return "-"
    cold, warm = median(f.cold_seconds for f in works), median(f.warm_seconds for f in works)
    return f"{cold:.2f} / {warm:.2f}"


def details(title: str, found: list[Row], names: list[str]) -> Grid:
    """A line for each case: medians of eager and of each backend, taking turns, and the speedup.

    Below the cases of each mode stands the geometric mean of those that are compared.
    """
    lines: list[tuple[str, ...]] = []
    for mode in (INFERENCE, TRAINING):
        members = [row for row in found if row.question.mode == mode]
        rows = {(row.question.case, row.question.backend): row for row in members}
        cases, common = dict.fromkeys(case for case, _ in rows), compared(members, names)
        for case in cases:
            lines.append((case, *(timed(rows.get((case, name))) for name in names)))
        by_name = [mean([r for r in members if r.question.backend == n], common) for n in names]
        if common:
            lines.append((f"*geometric mean of {len(common)}*", *by_name))
    return Grid(title, ("model", *names), lines)


def timed(row: Row | None) -> str:
    """`2.02 → 1.40, 1.44x`: milliseconds of eager and of the backend; or why there are none."""
    if row is None or not row.speedup:
        return NOT_MEASURED if row is None else row.outcome
    times = (row.found.eager_seconds, row.found.seconds)
    return " → ".join(f"{1000 * seconds:.4g}" for seconds in times) + f", {row.outcome}"


def failures(found: list[Row]) -> Grid:
    """A line for each row that counts as a speedup of 0, with the reason."""
    failed = [(each.question, each.found.failure) for each in found if each.found.failure]
    lines = [(asked.case, asked.device, asked.backend, reason) for asked, reason in failed]
    return Grid("failures", ("model", "device", "backend", "reason"), lines)


def guards(found: list[Row]) -> Grid:
    """The models whose guards cost most."""
    ours = [row for row in found if row.question.backend == OURS and row.speedup]
    dearest = sorted(ours, key=lambda row: -row.found.guard_microseconds)[:10]
    lines = [
        (row.question.case, f"{got.guard_microseconds:.1f}", str(got.graphs), str(got.breaks))
        for row in dearest
        for got in [row.found]
    ]
    return Grid("the ten dearest guards", ("model", "microseconds", "graphs", "breaks"), lines)


def shown(found: list[Row]) -> dict[str, Grid]:
    """All tables by name; details are by suite, device and dtype."""
    by_title: dict[str, list[Row]] = {}
    for (suite, _, dtype, device), rows in groups(found).items():
        by_title.setdefault(f"{suite} on {device}, {dtype}", []).extend(rows)
    names = {title: on_device(found, rows[0].question.device) for title, rows in by_title.items()}
    listed = {title: details(title, rows, names[title]) for title, rows in by_title.items()}
    return listed | {
        "speedups": grid("models that work, speedup over eager (mean)", found, speedups),
        "first calls": grid("seconds of the first call, cold / warm", found, compile_times),
        "guards": guards(found),
        "failures": failures(found),
    }


def figure4(found: list[Row]) -> dict[str, str]:
    """The paper's Figure 4 by the name of its file: a panel for each mode.

    It is drawn of the cases that every backend was asked for and offers. A failure counts as the
    smallest speedup that the axis shows.
    """
    names = backends_of(found)
    by_case: dict[str, dict[str, float]] = {}
    for row in (each for each in found if each.found.offered):
        title = f"{row.question.case}, {row.question.mode}"
        by_case.setdefault(title, {})[row.question.backend] = row.speedup
    results = [
        Result(case, {EAGER: 1.0} | {n: 1 / (got[n] or cumulative.TICKS[0]) for n in names}, [])
        for case, got in by_case.items()
        if got.keys() >= set(names)
    ]
    return {"figure4.svg": cumulative.figure(results)} if results else {}
