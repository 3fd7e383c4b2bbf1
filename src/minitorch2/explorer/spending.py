"""The time of a program: in kernels, library calls, the code around them, and the rest.

PyTorch's profiler records a range for each compiled function, each kernel and each operator. Time
is charged to the outermost kernel or operator of a range. The rest of a compiled function's range
is time of its guards, its wrapper and the Python between graphs. All of it is time of the CPU: on a
GPU a kernel's range is its launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from minitorch2.foundation.profiling import COMPILING

COMPILED = ("minitorch2: ", "CompiledFunction")
"""How the names of ranges of compiled functions begin."""
KERNEL = "kernel"
LIBRARY = "library call"
AROUND = "guards and wrapper"
OUTSIDE = "operator outside"
OTHER = "Python and autograd"
COMPILE = "compile"


@dataclass
class Spending:
    """The time of one thing: `kind` says which sort, `seconds` are of all `calls`."""

    kind: str
    name: str
    calls: int = 0
    seconds: float = 0.0


def spendings(events: Iterable[Any]) -> list[Spending]:
    """Return the spendings of the events of a profile, the largest first."""
    found: dict[tuple[str, str], Spending] = {}
    for event in events:
        if event.cpu_parent is None:
            for kind, name, microseconds in _charges(event, False):
                spent = found.setdefault((kind, name), Spending(kind, name))
                spent.calls += 1
                spent.seconds += microseconds / 1e6
    return sorted(found.values(), key=lambda spent: spent.seconds, reverse=True)


def _charges(event: Any, is_compiled: bool) -> Iterator[tuple[str, str, float]]:
    """Yield kind, name and microseconds of an event and of those inside it."""
    name: str = event.name
    if name.startswith(COMPILING):
        yield COMPILE, name.removeprefix(COMPILING), event.cpu_time_total
        return
    if name.startswith("aten::"):
        yield LIBRARY if is_compiled else OUTSIDE, name, event.cpu_time_total
        return
    is_range = name.startswith(COMPILED)
    if is_compiled and not is_range and "::" not in name:
        yield KERNEL, name, event.cpu_time_total
        return
    yield AROUND if is_range else OTHER, name, event.self_cpu_time_total
    for child in event.cpu_children:
        yield from _charges(child, is_compiled or is_range)


def spending_lines(spent: list[Spending], most: int = 30) -> Iterator[str]:
    """Yield the spendings as a table, with the share of all that is not compiling."""
    running = [each for each in spent if each.kind != COMPILE]
    total = sum(each.seconds for each in running) or 1.0
    compiling = sum(each.seconds for each in spent if each.kind == COMPILE)
    yield f"{total * 1e3:.1f} ms running, {compiling * 1e3:.1f} ms compiling"
    for kind in (KERNEL, LIBRARY, AROUND, OUTSIDE, OTHER):
        seconds = sum(each.seconds for each in running if each.kind == kind)
        yield f"  {kind:20} {seconds * 1e3:10.2f} ms {seconds / total:6.1%}"
    yield f"{'kind':20} {'ms':>10} {'share':>6} {'calls':>6}  name"
    for each in running[:most]:
        share = each.seconds / total
        yield f"{each.kind:20} {each.seconds * 1e3:10.2f} {share:6.1%} {each.calls:6}  {each.name}"
