"""Tables and the figure of the evaluation, made of its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import geometric_mean, median

from rich.table import Table

from benchmarks import figure4 as cumulative
from benchmarks.compilers import EAGER, OURS
from benchmarks.evaluate.rows import NOT_OFFERED, Row
from benchmarks.measure import Result

Group = tuple[str, str, str, str]


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


def grid(title: str, found: list[Row], cell: Callable[[list[Row]], str]) -> Grid:
    """A line for each group of rows, a column for each backend."""
    names, lines = backends_of(found), []
    for group, members in groups(found).items():
        by_backend = [[row for row in members if row.question.backend == name] for name in names]
        lines.append((*group, *(cell(each) if each else "" for each in by_backend)))
    return Grid(title, ("suite", "mode", "dtype", "device", *names), lines)


def speedups(members: list[Row]) -> str:
    """`23/24 1.31x`: models that work, and the geometric mean of their speedups.

    Rows that a backend does not offer are not counted.
    """
    offered = [row for row in members if row.found.offered]
    works = [row.speedup for row in offered if row.speedup]
    mean = f" {geometric_mean(works):.2f}x" if works else ""
    return f"{len(works)}/{len(offered)}{mean}" if offered else NOT_OFFERED


def compile_times(members: list[Row]) -> str:
    """`2.1 / 0.8`: the median seconds of first calls, cold and warm."""
    works = [row.found for row in members if row.speedup]
    if not works:
        return "-"
    cold, warm = median(f.cold_seconds for f in works), median(f.warm_seconds for f in works)
    return f"{cold:.2f} / {warm:.2f}"


def failures(found: list[Row]) -> Grid:
    """A line for each row that counts as a speedup of 0, with the reason."""
    failed = [(each.question, each.found.failure) for each in found if each.found.failure]
    lines = [(asked.case, asked.backend, reason) for asked, reason in failed]
    return Grid("failures", ("model", "backend", "reason"), lines)


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
    """All tables by name."""
    return {
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
