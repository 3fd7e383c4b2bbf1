"""A fused group of loop nests as passes over the elements that are reduced.

Softmax over long rows is one kernel of two passes. The first finds the maximum, and the sum of
exponentials, which can follow it (`online.py`). The second does the division, which needs both. A
value that varies along the reduction exists only inside a pass, so a later pass computes it again,
from memory and from results of earlier passes. If a whole row fits into a block, the order is the
same, but without a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from minitorch2.codegen.triton.online import Follower, online_sums
from minitorch2.loopir.schedule import SchedulerNode


@dataclass
class Pass:
    """`before` runs once per element that is kept, `inside` once per element that is reduced;
    `online` gives for reductions inside, by name, the sum that follows them."""

    before: list[SchedulerNode] = field(default_factory=list)
    inside: list[SchedulerNode] = field(default_factory=list)
    online: dict[str, Follower] = field(default_factory=dict)


def split_into_passes(
    nodes: Sequence[SchedulerNode], removed: frozenset[str], reduces: bool, loops: bool = False
) -> list[Pass]:
    """Put each nest into the first pass in which all values that it reads are complete.

    A pointwise nest in `removed` that varies along the reduction is in no pass: its readers compute
    it. If the passes are loops, a sum that can follow a reduction is in the same one.
    """
    ready: dict[str, int] = {}
    passes: list[Pass] = []
    online = online_sums(nodes) if reduces and loops else {}
    leaders = {follower.node.name: leader for leader, follower in online.items()}
    for node in nodes:
        leader = leaders.get(node.name)
        if leader is not None:
            ready[node.name] = ready[leader]
            passes[ready[leader] - 1].online[leader] = online[leader]
            continue
        at = max((ready[name] for name in node.read_names if name in ready), default=0)
        ready[node.name] = at + node.is_reduction
        while len(passes) <= at:
            passes.append(Pass())
        if not (reduces and node.covers_reduction):
            passes[at].before.append(node)
        elif node.has_inner_loops or node.name not in removed:
            passes[at].inside.append(node)
    return passes
