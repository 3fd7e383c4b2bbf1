"""A fused group of loop nests as passes over the elements that are reduced.

Softmax over long rows is one kernel of three passes: the maximum; the sum of exponentials, which
needs the maximum; the division, which needs the sum. What varies along the reduction lives only
inside a pass, so a later pass computes it again, from memory and from results of earlier ones.
Where a whole row fits into a block there is still this order, but no loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from minitorch2.loopir.schedule import SchedulerNode


@dataclass
class Pass:
    """`before` runs once per element that is kept, `inside` once per element that is reduced."""

    before: list[SchedulerNode] = field(default_factory=list)
    inside: list[SchedulerNode] = field(default_factory=list)


def split_into_passes(
    nodes: Sequence[SchedulerNode], removed: frozenset[str], reduces: bool
) -> list[Pass]:
    """Each nest in the first pass in which all that it reads is complete.

    A pointwise nest in `removed` that varies along the reduction is in no pass: whoever reads it
    computes it.
    """
    ready: dict[str, int] = {}
    passes: list[Pass] = []
    for node in nodes:
        at = max((ready[name] for name in node.read_names if name in ready), default=0)
        ready[node.name] = at + node.is_reduction
        while len(passes) <= at:
            passes.append(Pass())
        if not (reduces and node.covers_reduction):
            passes[at].before.append(node)
        elif node.has_inner_loops or node.name not in removed:
            passes[at].inside.append(node)
    return passes
