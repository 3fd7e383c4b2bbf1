"""The optimizations that a run has missed, each with its reason, its line, and what it would gain.

    graph break         the graph ends there: values go through memory, and guards run again
    replay refused      kernels are launched one by one, though a recording could launch all
    layout conversion   a kernel that computes nothing
    library call        its result goes through memory to the kernel behind it
    fusion refused      what both kernels touch goes through memory twice
    operator as eager's no kernel of ours computes it
    not compiled        an optimizer runs outside of all graphs
    slow kernel         it takes longer than the machine needs for its bytes and operations

A gain is an estimate, in microseconds of the whole run. It multiplies measured calls by measured
seconds, or by the bytes that need not be moved over the bandwidth. Gains do not add up: a kernel
that is fused has no layout to convert.
"""

from __future__ import annotations

import ast
import linecache
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from minitorch2.bytecode.compiling.compiled_frame import GraphBreak
from minitorch2.explorer.profiled.machine import Limits
from minitorch2.explorer.profiled.plans import GraphPlan, PlanLog
from minitorch2.explorer.profiled.spending import AROUND, KERNEL, LIBRARY, OTHER, WRAPPER, Spending
from minitorch2.explorer.profiled.works import Work
from minitorch2.explorer.store import ScheduledNode
from minitorch2.foundation.syntax_tree import parse

SLOW = 0.25
"""A kernel that reaches less than this share of the machine's limit is slow."""
NOTICED = 50e-6
"""Seconds of a call below which a kernel is not called slow: its range costs a part of them."""
NO_EPILOGUE = "a library computes the first one, and takes no kernel in"


@dataclass(frozen=True)
class Missed:
    """An optimization that was not made.

    Attributes:
        microseconds: what it would gain in the whole run, by estimate.
        lines: the user's lines; empty if none is known.
        fix: what helps; "" if that is not known.
        times: in how many places of the graphs it was missed.
    """

    kind: str
    subject: str
    reason: str
    microseconds: float
    lines: tuple[str, ...] = ()
    times: int = 1
    fix: str = ""


@dataclass(frozen=True)
class Measured:
    """The measurements of a run, by the programs of its graphs."""

    spent: list[Spending]
    log: PlanLog
    limits: Limits
    _by_name: dict[tuple[str, str, str], Spending] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._by_name.update({(each.kind, each.graph, each.name): each for each in self.spent})

    def of(self, plan: GraphPlan, work: Work) -> Spending | None:
        """Return what all calls of a kernel or a library call in a graph have spent."""
        return self._by_name.get((work.kind, plan.name, work.name))

    def calls(self, plan: GraphPlan) -> int:
        """Return how often a graph was called."""
        found = (s for s in self.spent if s.kind == WRAPPER and s.graph == plan.name)
        return sum(each.calls for each in found)

    def moving(self, nbytes: float, plan: GraphPlan) -> float:
        """Return the microseconds in which all calls of a graph move bytes."""
        return nbytes / self.limits.bandwidth * self.calls(plan) * 1e6


def missed_in(run: Measured) -> list[Missed]:
    """Return what a run has missed, the largest gain first; nothing of graphs that did not run."""
    found = [*_breaks(run), *_operators(run), *_replays(run), *_optimizers(run)]
    for plan in run.log.plans.values():
        if run.calls(plan):
            found += [*_fusions(run, plan), *_kernels(run, plan)]
    return sorted(_joined(found), key=lambda each: each.microseconds, reverse=True)


def _joined(found: Iterable[Missed]) -> Iterator[Missed]:
    """Yield equal ones once, as of layers that share their lines, with the sum of their gains."""
    equal = defaultdict[tuple[str, str, str, tuple[str, ...]], list[Missed]](list)
    for each in found:
        equal[each.kind, each.subject, each.reason, each.lines].append(each)
    for group in equal.values():
        gained = sum(each.microseconds for each in group)
        yield replace(group[0], microseconds=gained, times=len(group))


# -- breaks ----------------------------------------------------------------------------------------


def _breaks(run: Measured) -> Iterator[Missed]:
    """Yield each line at which graphs broke; a function's breaks share the time of its guards."""
    by_line = defaultdict[tuple[str, int, str], list[tuple[str, GraphBreak]]](list)
    for identity, found in run.log.breaks:
        by_line[found.line.file, found.line.line, found.reason].append((identity, found))
    for group in by_line.values():
        found = group[0][1]
        ended = {identity for identity, _ in group}
        plans = [plan for plan in run.log.plans.values() if plan.compilation in ended]
        crossing = sum(run.moving(2 * _bytes_out(plan), plan) for plan in plans)
        where = "in a loop" if is_in_loop(found.line.file, found.line.line) else "in the middle"
        yield Missed(
            "graph break",
            f"the graph ends {where}",
            f"{found.cause} [{found.reason}]",
            crossing + _around(run, found, len(by_line)),
            (f"{found.line.file}:{found.line.line}",),
            fix=found.fix,
        )


def _bytes_out(plan: GraphPlan) -> float:
    return sum(plan.sizes.get(name, 0.0) for name in plan.outputs)


def _around(run: Measured, found: GraphBreak, breaks: int) -> float:
    """Return the share of one break in the time around the graphs of its function."""
    names = [found.line.function, *(line.function for line in found.stack)]
    spent = [
        s for s in run.spent if s.kind == AROUND and s.name.endswith(tuple(filter(None, names)))
    ]
    return sum(s.fastest * s.calls for s in spent) * 1e6 / (breaks + 1)


def is_in_loop(file: str, line: int) -> bool:
    """Return whether a line of a file lies in a loop of its function."""
    try:
        tree = parse("".join(linecache.getlines(file)), file)
    except SyntaxError:
        return False
    loops = (n for n in ast.walk(tree) if isinstance(n, ast.For | ast.While | ast.AsyncFor))
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and _has(n, line)]
    first = max((n.lineno for n in functions), default=0)
    return any(_has(loop, line) and loop.lineno > first for loop in loops)


def _has(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


# -- operators and launches ------------------------------------------------------------------------


def _operators(run: Measured) -> Iterator[Missed]:
    """Yield the operators that have no kernel of ours; at most all of their time is gained."""
    for each in dict.fromkeys(each for each in run.log.of_eager if not each.is_choice):
        named = [s for s in run.spent if s.kind == LIBRARY and s.graph and s.name == each.operator]
        seconds = sum(s.fastest * s.calls for s in named)
        lines = (each.line,) if each.line else ()
        yield Missed("operator as eager's", each.operator, each.reason, seconds * 1e6, lines)


def _replays(run: Measured) -> Iterator[Missed]:
    """Yield the graphs whose launches are not replayed, which gains the time to launch them."""
    for name, reason in dict.fromkeys(run.log.refused):
        plan = run.log.plans.get(name)
        seconds = sum(
            s.fastest * s.calls for s in run.spent if s.graph == name and s.kind == WRAPPER
        )
        lines = plan.works[0].lines if plan is not None and plan.works else ()
        yield Missed("replay refused", f"graph {name}", reason, seconds * 1e6, lines[:1])


def _optimizers(run: Measured) -> Iterator[Missed]:
    """Yield the methods of optimizers that ran in eager PyTorch, with their Python's own time."""
    for each in run.spent:
        if each.kind == OTHER and each.name.startswith("Optimizer."):
            method, _, _ = each.name.removeprefix("Optimizer.").partition("#")
            subject = each.name.partition("#")[2].removesuffix(f".{method}")
            reason = f"{method}() runs in eager PyTorch"
            fix = "compile the function that calls it"
            own = each.seconds * 1e6
            yield Missed("not compiled", f"optimizer {subject}", reason, own, fix=fix)


# -- kernels ---------------------------------------------------------------------------------------


def _fusions(run: Measured, plan: GraphPlan) -> Iterator[Missed]:
    """Yield the pairs of neighbours that are two kernels, with the bytes that one would save."""
    works = {name: work for work in plan.works for name in work.nodes}
    nodes = plan.fusion.nodes
    for i, j, reason in plan.fusion.reasons:
        first, second = nodes[i], nodes[j]
        nbytes = saved_bytes(first, second, plan)
        if not nbytes or first.name not in works or second.name not in works:
            continue
        a, b = works[first.name], works[second.name]
        if b.kind == LIBRARY or (a.kind == LIBRARY and first.name not in second.reads):
            continue
        kind = "fusion refused" if a.kind == KERNEL else "library call"
        why = reason if a.kind == KERNEL else _why_of_library(run, a)
        lines = tuple(dict.fromkeys((*a.lines[:1], *b.lines[:1])))
        yield Missed(kind, f"{a.name}, then {b.name}", why, run.moving(nbytes, plan), lines)


def saved_bytes(first: ScheduledNode, second: ScheduledNode, plan: GraphPlan) -> float:
    """Return the bytes that one kernel would not move: read twice, or written and read again."""
    shared = set(first.reads) & set(second.reads)
    nbytes = sum(plan.sizes.get(name, 0.0) for name in shared)
    for name in set(first.members) & set(second.reads):
        readers = [node for node in plan.fusion.nodes if name in node.reads]
        is_needed = len(readers) > 1 or name in plan.outputs
        nbytes += plan.sizes.get(name, 0.0) * (1 if is_needed else 2)
    return nbytes


def _why_of_library(run: Measured, work: Work) -> str:
    said = (each.reason for each in run.log.of_eager if each.operator == work.operator)
    return next((f"{NO_EPILOGUE}: {reason}" for reason in said), NO_EPILOGUE)


def _kernels(run: Measured, plan: GraphPlan) -> Iterator[Missed]:
    """Yield the kernels that only move data, and those far below the machine's limit."""
    for work in merged(plan.works):
        spent = run.of(plan, work)
        if spent is None or work.kind != KERNEL:
            continue
        limit = run.limits.seconds(work.bytes, work.operations)
        gained = (spent.fastest - limit) * spent.calls * 1e6
        if work.moves_only:
            whole = spent.fastest * spent.calls * 1e6
            yield Missed("layout conversion", work.name, "it only moves data", whole, work.lines)
        elif limit < SLOW * spent.fastest and spent.fastest > NOTICED:
            reached = f"{limit / spent.fastest:.0%} of the machine's limit"
            reason = f"{reached}; {work.hindrance}" if work.hindrance else reached
            yield Missed("slow kernel", work.name, reason, gained, work.lines)


def merged(works: Iterable[Work]) -> list[Work]:
    """Return one work for each name: the largest, where equal kernels share a definition."""
    found: dict[tuple[str, str], Work] = {}
    for work in works:
        key = work.kind, work.name
        if key not in found or found[key].bytes < work.bytes:
            found[key] = work
    return list(found.values())
