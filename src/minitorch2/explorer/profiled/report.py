"""The report of a profile, as text and as data that JSON can hold."""

from __future__ import annotations

import json
import os
import site
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from minitorch2.explorer.profiled.machine import Limits
from minitorch2.explorer.profiled.missed import Measured, Missed, merged, missed_in
from minitorch2.explorer.profiled.peaks import Peak, measured_peaks, most_allocated
from minitorch2.explorer.profiled.plans import GraphPlan, PlanLog
from minitorch2.explorer.profiled.spending import (
    COMPILE,
    WRAPPER,
    Spending,
    seconds_by_kind,
    spending_lines,
    spendings,
)
from minitorch2.explorer.profiled.works import Work

VERSION = 1
"""The version of the form of a profile's data."""
MOST = 20
"""The missed optimizations that the text shows; data have all."""
NOTICED = 0.002
"""The share of the running time below which a gain is left out of the text."""


@dataclass(frozen=True)
class Reached:
    """A kernel or library call, and how near it comes to the machine's limit.

    Attributes:
        seconds: of its fastest call.
        share: the least seconds that the machine needs, over `seconds`; above 1 if data stay in a
            cache of the processor.
    """

    work: Work
    graph: str
    calls: int
    seconds: float
    share: float


@dataclass(frozen=True)
class Metrics:
    """The counts and times of a run.

    Attributes:
        compile_seconds: the time to compile.
        run_seconds: all other time of the ranges that PyTorch's profiler has recorded.
        counts: the counters of all layers, by name.
        fallbacks: how often a graph that runs an operator as eager PyTorch does was compiled, by
            ``operator at line: reason``. Operators that a library computes by choice do not count.
    """

    compile_seconds: float
    run_seconds: float
    counts: dict[str, int]
    fallbacks: dict[str, int]

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        yield "counters: " + ", ".join(f"{name} {n}" for name, n in sorted(self.counts.items()))
        yield f"fallbacks: {len(self.fallbacks)}"
        yield from (f"  {n}x {text}" for text, n in self.fallbacks.items())


def metrics_of(spent: list[Spending], log: PlanLog) -> Metrics:
    """Return the counts of a run and of the log that heard it."""
    eager = (each for each in log.of_eager if not each.is_choice)
    texts = Counter(f"{each.operator} at {each.line}: {each.reason}" for each in eager)
    return Metrics(
        sum(each.seconds for each in spent if each.kind == COMPILE),
        sum(seconds_by_kind(spent).values()),
        dict(log.counts),
        dict(texts.most_common()),
    )


@dataclass(frozen=True)
class Profile:
    """All that is known of a run."""

    spent: list[Spending]
    reached: list[Reached]
    missed: list[Missed]
    peaks: list[Peak]
    most_bytes: int
    limits: Limits
    metrics: Metrics

    def as_data(self) -> dict[str, Any]:
        """Return the profile as what JSON can hold."""
        return {"version": VERSION} | asdict(self)

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        yield from spending_lines(self.spent)
        yield ""
        yield f"limits of {self.limits}"
        yield from _reached_lines(self.reached)
        yield ""
        yield from self._missed_lines()
        yield ""
        yield from self._peak_lines()
        yield ""
        yield from self.metrics.lines()

    def _missed_lines(self) -> Iterator[str]:
        running = sum(seconds_by_kind(self.spent).values()) * 1e6
        shown = [each for each in self.missed if each.microseconds >= NOTICED * running][:MOST]
        less = len(self.missed) - len(shown)
        rest = f"; {less} that would gain less are left out" if less else ""
        yield f"missed optimizations: {len(shown)}{rest}"
        for each in shown:
            times = f" ({each.times} times)" if each.times > 1 else ""
            yield f"  {each.kind}: {each.subject}{times}"
            yield f"      {each.reason}"
            yield from (f"      at {short_place(line)}" for line in each.lines[:3])
            if each.fix:
                yield f"      Fix: {each.fix}"
            gained, share = each.microseconds / 1e3, each.microseconds / (running or 1.0)
            yield f"      would gain about {gained:,.2f} ms, {share:.1%} of the run"

    def _peak_lines(self) -> Iterator[str]:
        yield f"memory: at most {_bytes(self.most_bytes)} allocated at a time in the run (measured)"
        for each in self.peaks:
            measured = f"measured {_bytes(each.measured)}"
            name = f"{each.function}, graph {each.graph}".lstrip(", ")
            if each.planned is None:
                yield f"  {name}: sizes vary, so nothing is planned; {measured}"
                continue
            yield f"  {name}: planned {_bytes(each.planned.bytes)}, {measured}"
            yield from (f"      at {short_place(line)}" for line in each.planned.lines[:3])


def _bytes(number: float) -> str:
    return f"{number:,.0f} bytes"


def _reached_lines(reached: list[Reached]) -> Iterator[str]:
    if not reached:
        return
    yield f"{'of limit':>8} {'us':>9} {'GB/s':>6} {'Gop/s':>6} {'calls':>6}  name and line"
    for each in reached[:MOST]:
        work, seconds = each.work, each.seconds or 1.0
        rates = f"{work.bytes / seconds / 1e9:6.1f} {work.operations / seconds / 1e9:6.1f}"
        line = short_place(work.lines[-1]) if work.lines else ""
        micro = each.seconds * 1e6
        yield f"{each.share:8.0%} {micro:9.1f} {rates} {each.calls:6}  {work.name}  {line}"
    if any(each.share > 1 for each in reached[:MOST]):
        yield "  above 100%: its data stay in a cache of the processor, or the probe was disturbed"


def short_place(place: str) -> str:
    """Return a file and its line, shorter: from the folder of packages on, or from this folder."""
    for folder in (*site.getsitepackages(), str(Path.cwd())):
        if place.startswith(folder + os.sep):
            return place[len(folder) + 1 :]
    return place


def profile_of(
    recorded: torch.profiler.profile, log: PlanLog, limits: Limits, output: Path | None = None
) -> Profile:
    """Return the profile of a run that was recorded with `profile_memory`, and its log.

    Args:
        output: a file for the Chrome trace; None keeps none.
    """
    spent = [_named(each, log) for each in spendings(recorded.events())]  # type: ignore[no-untyped-call]
    events = chrome_events(recorded, output)
    run = Measured(spent, log, limits)
    measured = measured_peaks(events)
    ran = [plan for plan in log.plans.values() if plan.name in measured]
    reached = [each for plan in ran for each in _reached(run, plan)]
    names = {each.graph: each.name for each in spent if each.kind == WRAPPER}
    peaks = [Peak(p.name, p.peak, measured[p.name], names.get(p.name, "")) for p in ran]
    return Profile(
        spent,
        sorted(reached, key=lambda each: each.seconds * each.calls, reverse=True),
        missed_in(run),
        sorted(peaks, key=lambda each: each.measured, reverse=True),
        most_allocated(events),
        limits,
        metrics_of(spent, log),
    )


def _named(spent: Spending, log: PlanLog) -> Spending:
    """Return a wrapper's time under the name of the function that it belongs to."""
    plan = log.plans.get(spent.graph)
    if spent.kind != WRAPPER or plan is None or plan.compilation not in log.functions:
        return spent
    backward = "backward of " if spent.name == "CompiledFunctionBackward" else ""
    return replace(spent, name=f"{backward}{log.functions[plan.compilation]}")


def _reached(run: Measured, plan: GraphPlan) -> Iterator[Reached]:
    for work in merged(plan.works):
        spent = run.of(plan, work)
        if spent is not None:
            share = run.limits.seconds(work.bytes, work.operations) / (spent.fastest or 1.0)
            yield Reached(work, plan.name, spent.calls, spent.fastest, share)


def chrome_events(recorded: torch.profiler.profile, output: Path | None) -> list[dict[str, Any]]:
    """Return the events of a profile in the form of Chrome's traces, which has all allocations.

    PyTorch writes such a trace once.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = output or Path(folder) / "trace.json"
        recorded.export_chrome_trace(str(path))
        found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return found
