"""Tables and the figure of the evaluation, made of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import geometric_mean, median

from rich.table import Table

from benchmarks import figure4 as cumulative
from benchmarks.compilers import EAGER, OURS
from benchmarks.evaluate.rows import Row
from benchmarks.measure import Result

Group = tuple[str, str, str, str]


def groups(found: list[Row]) -> dict[Group, list[Row]]:
    """The rows by suite, mode, dtype and device."""
    grouped: dict[Group, list[Row]] = {}
    for row in found:
        asked = row.question
        dtype = asked.dtype + ", frozen" * asked.freezing
        grouped.setdefault((asked.suite, asked.mode, dtype, asked.device), []).append(row)
    return grouped


def backends_of(found: list[Row]) -> list[str]:
    """The backends in the order in which they were measured."""
    return list(dict.fromkeys(row.question.backend for row in found))


def grid(title: str, found: list[Row], cell: Callable[[list[Row]], str]) -> Table:
    """A line for each group of rows, a column for each backend."""
    names = backends_of(found)
    table = Table("suite", "mode", "dtype", "device", *names, title=title)
    for group, members in groups(found).items():
        by_backend = [[row for row in members if row.question.backend == name] for name in names]
        table.add_row(*group, *(cell(each) if each else "" for each in by_backend))
    return table


def speedups(members: list[Row]) -> str:
    """`23/24 1.31x`: models that work, and the geometric mean of their speedups."""
    works = [row.speedup for row in members if row.speedup]
    mean = f" {geometric_mean(works):.2f}x" if works else ""
    return f"{len(works)}/{len(members)}{mean}"


def compile_times(members: list[Row]) -> str:
    """`2.1 / 0.8`: the median seconds of first calls, cold and warm."""
    works = [row.found for row in members if row.speedup]
    if not works:
        return "-"
    cold, warm = median(f.cold_seconds for f in works), median(f.warm_seconds for f in works)
    return f"{cold:.2f} / {warm:.2f}"


def failures(found: list[Row]) -> Table:
    """A line for each row that counts as a speedup of 0, with the reason."""
    table = Table("model", "backend", "reason", title="failures")
    for row in found:
        if row.found.failure:
            table.add_row(row.question.case, row.question.backend, row.found.failure)
    return table


def guards(found: list[Row]) -> Table:
    """The models whose guards cost most."""
    table = Table("model", "guards, us", "graphs", "breaks", title="the ten dearest guards")
    ours = [row for row in found if row.question.backend == OURS and row.speedup]
    for row in sorted(ours, key=lambda row: -row.found.guard_microseconds)[:10]:
        got = row.found
        cost = f"{got.guard_microseconds:.1f}"
        table.add_row(row.question.case, cost, str(got.graphs), str(got.breaks))
    return table


def shown(found: list[Row]) -> Iterator[Table]:
    """All tables."""
    yield grid("Table 3: models that work, speedup over eager (geometric mean)", found, speedups)
    yield grid("seconds of the first call, cold / warm cache (median)", found, compile_times)
    yield guards(found)
    yield failures(found)


def figure4(found: list[Row]) -> dict[str, str]:
    """The paper's Figure 4 by the name of its file: a panel for each mode.

    It is drawn of the cases that every backend was asked for. A failure counts as the smallest
    speedup that the axis shows.
    """
    names = backends_of(found)
    by_case: dict[str, dict[str, float]] = {}
    for row in found:
        title = f"{row.question.case}, {row.question.mode}"
        by_case.setdefault(title, {})[row.question.backend] = row.speedup
    results = [
        Result(case, {EAGER: 1.0} | {n: 1 / (got[n] or cumulative.TICKS[0]) for n in names}, [])
        for case, got in by_case.items()
        if got.keys() >= set(names)
    ]
    return {"figure4.svg": cumulative.figure(results)} if results else {}
