"""The peak of memory: planned while a graph is compiled, and measured when it has run.

The plan is that of the graph's intermediates and results: each tensor and each arena is alive from
one step to another. The measured peak is of the allocations between the begin and the end of a call
of the graph, as PyTorch's profiler has recorded them. It also has what library calls need for
themselves, and it misses what the graph frees of its arguments.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from minitorch2.codegen.memory import Memory
from minitorch2.explorer.profiled.works import lines_of
from minitorch2.foundation.profiling import GRAPH
from minitorch2.graph.node import Node
from minitorch2.loopir.schedule import (
    BaseSchedulerNode,
    ExternKernelSchedulerNode,
    Schedule,
    bodies,
    kernels_in,
)


@dataclass(frozen=True)
class PlannedPeak:
    """The most bytes that a graph holds at a time.

    Attributes:
        node: the step at which it holds them, or "" if it holds none.
        lines: the user's lines that this step computes.
        largest: what is held then, as (buffer, bytes), the largest first.
    """

    bytes: int
    node: str = ""
    lines: tuple[str, ...] = ()
    largest: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Peak:
    """The peak of one graph: planned, and the most of all its calls; None if it has no plan."""

    graph: str
    planned: PlannedPeak | None
    measured: int
    function: str = ""


@dataclass(frozen=True)
class _Held:
    """Memory that is alive from step `start` to step `end`, both included."""

    name: str
    bytes: int
    start: int
    end: int


def planned_peak(memory: Memory, plan: Schedule) -> PlannedPeak | None:
    """Return the planned peak of a graph, and the step where it is reached; None if sizes vary."""
    if memory.tensors is None:
        return None
    held = [_Held(t.name, t.bytes, t.start, t.end) for t in memory.tensors]
    held += [_Held("arena", a.bytes, a.start, a.end) for a in memory.arenas]
    steps = range(len(plan.nodes) + 1)  # behind the last node the results are held
    alive = [[h for h in held if h.start <= step <= h.end] for step in steps]
    step = max(steps, key=lambda each: sum(h.bytes for h in alive[each]))
    most = sum(h.bytes for h in alive[step])
    if not most:
        return PlannedPeak(0)
    node, lines = _computing(plan.nodes[: step + 1])
    largest = sorted(((h.name, h.bytes) for h in alive[step]), key=lambda each: -each[1])
    return PlannedPeak(most, node, lines, tuple(largest))


def _computing(nodes: list[BaseSchedulerNode]) -> tuple[str, tuple[str, ...]]:
    """Return the last of these steps that has lines of the user's, with these."""
    for node in reversed(nodes):
        lines = lines_of(origins_of(node))
        if lines:
            return node.name, lines
    return nodes[-1].name, ()


def origins_of(node: BaseSchedulerNode) -> list[Node]:
    """Return the nodes of the graph that a step computes."""
    if isinstance(node, ExternKernelSchedulerNode):
        return [*node.kernel.origins]
    run = (body for kernel in kernels_in(node) for body in bodies(kernel))
    return [origin for body in run for origin in body.buffer.origins]


def measured_peaks(events: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the most bytes that a call of each graph has allocated at a time, by its program.

    Args:
        events: those of a Chrome trace that was recorded with `profile_memory`.
    """
    threads = defaultdict[Any, list[tuple[float, int, Mapping[str, Any]]]](list)
    for event in events:
        place = event.get("pid"), event.get("tid")
        if event.get("name") == "[memory]":
            threads[place].append((event["ts"], 1, event))
        elif event.get("ph") == "X" and str(event.get("name")).startswith(GRAPH):
            threads[place].append((event["ts"], 2, event))
            threads[place].append((event["ts"] + event["dur"], 0, event))
    found: dict[str, int] = {}
    for thread in threads.values():
        for name, most in _peaks(sorted(thread, key=lambda each: each[:2])):
            found[name] = max(most, found.get(name, 0))
    return found


def _peaks(moments: list[tuple[float, int, Mapping[str, Any]]]) -> Iterable[tuple[str, int]]:
    """Yield each call of a graph with its peak; moments are ends, allocations and begins."""
    open_calls: list[tuple[Mapping[str, Any], int]] = []
    held, most = defaultdict[Any, int](int), dict[int, int]()
    for _, kind, event in moments:
        if kind == 2:
            open_calls.append((event, sum(held.values())))
            most[id(event)] = 0
        elif kind == 0:
            open_calls = [call for call in open_calls if call[0] is not event]
            yield event["name"].removeprefix(GRAPH), most[id(event)]
        else:
            held[event["args"].get("Device Type")] += event["args"]["Bytes"]
            for call, before in open_calls:
                most[id(call)] = max(most[id(call)], sum(held.values()) - before)


def most_allocated(events: Iterable[Mapping[str, Any]]) -> int:
    """Return the most bytes that were allocated at a time in the run, beyond those at its begin."""
    held = most = 0
    memory = [event for event in events if event.get("name") == "[memory]"]
    for event in sorted(memory, key=lambda each: float(each["ts"])):
        held += event["args"]["Bytes"]
        most = max(most, held)
    return most
