"""Why are these two nodes of a schedule not one kernel?

The scheduler's log has each pair that it tried, with its reason, by the names that the nodes had
then. The two nodes, or parts of what they are now, were tried together: the latest such entry
answers. A pair without an entry shares no memory, or one of both has no loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from minitorch2.explorer.store import Fusion, ScheduledNode
from minitorch2.loopir.schedule import (
    BaseSchedulerNode,
    ExternKernelSchedulerNode,
    FusionDecision,
    NopKernelSchedulerNode,
    Schedule,
    kernels_in,
)

NOTHING_SHARED = "they touch no buffer in common: one kernel would move as many bytes as two"
NEVER_TRIED = "the scheduler did not try this pair: each of them had nearer neighbours"


def fusion_of(plan: Schedule) -> Fusion:
    """Return a schedule with the reason for each pair of its nodes that share a buffer."""
    nodes = tuple(map(_scheduled, plan.nodes))
    return Fusion(nodes, tuple(_reasons(nodes, plan.log)))


def _scheduled(node: BaseSchedulerNode) -> ScheduledNode:
    kernels = kernels_in(node)
    sizes = [map(str, (*kernel.ranges, *kernel.reduction_ranges)) for kernel in kernels]
    loops = "; ".join(" x ".join(each) or "1" for each in sizes)
    members = tuple(member.name for member in node.members)
    return ScheduledNode(node.name, _kind(node), members, tuple(sorted(node.read_names)), loops)


def _kind(node: BaseSchedulerNode) -> str:
    if isinstance(node, ExternKernelSchedulerNode):
        return "library call"
    return "result" if isinstance(node, NopKernelSchedulerNode) else "kernel"


def _reasons(
    nodes: tuple[ScheduledNode, ...], log: list[FusionDecision]
) -> Iterator[tuple[int, int, str]]:
    tried = _tried(log)
    touched = [frozenset((*node.members, *node.reads)) for node in nodes]
    for i, j in combinations(range(len(nodes)), 2):
        if not touched[i].isdisjoint(touched[j]):
            yield i, j, why_not(nodes[i], nodes[j], tried)


Tried = list[tuple[frozenset[str], frozenset[str], str]]


def _tried(log: list[FusionDecision]) -> Tried:
    """Return the refused pairs with their buffers, the latest first."""
    refused = (each for each in reversed(log) if each.refusal is not None)
    return [(members(each.first), members(each.second), str(each)) for each in refused]


def members(name: str) -> frozenset[str]:
    """Return the buffers of a node by its name, which joins theirs."""
    return frozenset(name.split("_"))


def why_not(first: ScheduledNode, second: ScheduledNode, tried: Tried) -> str:
    """Return the reason why two nodes of a schedule are not one."""
    for node in (first, second):
        if node.kind != "kernel":
            return f"{node.name} is a {node.kind}: it has no loops to share"
    a, b = frozenset(first.members), frozenset(second.members)
    for left, right, reason in tried:
        if (left <= a and right <= b) or (left <= b and right <= a):
            return reason
    return NEVER_TRIED
