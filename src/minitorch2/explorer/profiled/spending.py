"""The time of a program: in kernels, library calls, the code around them, and the rest.

PyTorch's profiler records a range for each compiled function, each graph, each kernel and each
operator. Time is charged to the outermost kernel or operator of a range. The rest of a graph's
range is time of its wrapper. The rest of a compiled function's range is time of guards and of the
Python between graphs. All of it is time of the CPU: on a GPU a kernel's range is its launch.

A call that compiles spends the rest of its range on compiling.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from minitorch2.foundation.profiling import COMPILING, GRAPH

COMPILED = ("minitorch2: ", "CompiledFunction")
"""How the names of ranges of compiled functions begin."""
KERNEL = "kernel"
LIBRARY = "library call"
WRAPPER = "wrapper"
AROUND = "guards and Python"
OUTSIDE = "operator outside"
OTHER = "the rest"
COMPILE = "compile"
KINDS = (KERNEL, LIBRARY, WRAPPER, AROUND, OUTSIDE, OTHER)
"""The kinds of time that are not compiling."""


@dataclass
class Spending:
    """The time of one thing: `kind` says which sort, `seconds` are of all `calls`.

    Attributes:
        graph: the name of the program that it belongs to, if there is one.
        fastest: the seconds of the fastest call; a first call also loads libraries.
    """

    kind: str
    name: str
    graph: str = ""
    calls: int = 0
    seconds: float = 0.0
    fastest: float = math.inf


@dataclass(frozen=True)
class _Place:
    """The compiled function and the graph whose ranges are open around an event, or ""."""

    function: str = ""
    graph: str = ""


_Charge = tuple[str, str, str, float]
"""Kind, name, graph and microseconds."""


def spendings(events: Iterable[Any]) -> list[Spending]:
    """Return the spendings of the events of a profile, the largest first."""
    found: dict[tuple[str, str, str], Spending] = {}
    for event in events:
        if event.cpu_parent is None and event.name != "[memory]":
            for kind, name, graph, microseconds in _charges(event, _Place()):
                spent = found.setdefault((kind, name, graph), Spending(kind, name, graph))
                spent.calls += 1
                spent.seconds += microseconds / 1e6
                spent.fastest = min(spent.fastest, microseconds / 1e6)
    return sorted(found.values(), key=lambda spent: spent.seconds, reverse=True)


def _charges(event: Any, place: _Place) -> Iterator[_Charge]:
    """Yield the charges of an event and of those inside it."""
    name: str = event.name
    if name.startswith(COMPILING):
        yield COMPILE, name.removeprefix(COMPILING), "", event.cpu_time_total
    elif name.startswith("aten::"):
        kind = LIBRARY if place.function else OUTSIDE
        yield kind, name, place.graph, event.cpu_time_total
    elif place.graph and "::" not in name and not name.startswith((*COMPILED, GRAPH)):
        yield KERNEL, name, place.graph, event.cpu_time_total
    else:
        kind, name, place = _opened(name, place)
        if any(child.name.startswith(COMPILING) for child in event.cpu_children):
            kind = COMPILE
        yield kind, name, place.graph, event.self_cpu_time_total
        for child in event.cpu_children:
            yield from _charges(child, place)


def _opened(name: str, place: _Place) -> tuple[str, str, _Place]:
    """Return the kind and the name of a range's own time, and the place inside it."""
    if name.startswith(GRAPH):
        function = place.function or name
        return WRAPPER, function, _Place(function, name.removeprefix(GRAPH))
    if name.startswith(COMPILED):
        return AROUND, name, _Place(name)
    return (AROUND if place.function else OTHER), name, place


def seconds_by_kind(spent: Iterable[Spending]) -> dict[str, float]:
    """Return the seconds of each kind but compiling."""
    found = dict.fromkeys(KINDS, 0.0)
    for each in spent:
        if each.kind != COMPILE:
            found[each.kind] += each.seconds
    return found


def spending_lines(spent: list[Spending], most: int = 30) -> Iterator[str]:
    """Yield the spendings as a table, with the share of all that is not compiling."""
    kinds = seconds_by_kind(spent)
    running = sum(kinds.values())
    total = running or 1.0  # shares of nothing are 0
    compiling = sum(each.seconds for each in spent if each.kind == COMPILE)
    yield f"{running * 1e3:.1f} ms running, {compiling * 1e3:.1f} ms compiling"
    if not spent:
        yield "no operator of PyTorch ran"
        return
    for kind, seconds in kinds.items():
        yield f"  {kind:20} {seconds * 1e3:10.2f} ms {seconds / total:6.1%}"
    yield f"{'kind':20} {'ms':>10} {'share':>6} {'calls':>6}  name"
    for each in [each for each in spent if each.kind != COMPILE][:most]:
        share = each.seconds / total
        yield f"{each.kind:20} {each.seconds * 1e3:10.2f} {share:6.1%} {each.calls:6}  {each.name}"
