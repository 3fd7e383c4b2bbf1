"""Start collectives early and wait for them late, so that they run while other things compute.

Laws, for a start `c`, a wait `w` for it, and an operator `y` without effects that cannot raise::

    y = f(a); c = start(x)        # x is not y           -->        c = start(x); y = f(a)
    w = wait(c); y = f(a)         # a is not w           -->        y = f(a); w = wait(c)
    w = wait(c); d = start(x)     # x is not w           -->        d = start(x); w = wait(c)

No start passes another start, of any group: all ranks start all collectives in the order of the
program. No start or wait passes a write, a node with other effects, or one that may raise.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from minitorch2.graph.effects import is_random
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node
from minitorch2.graph.raising import must_run
from minitorch2.graph.rewriting import Rewrite, graph_pass
from minitorch2.native.torch_internals.operators import OpOverload

NAMESPACE = "_c10d_functional"
WAIT = torch.ops._c10d_functional.wait_tensor.default


@graph_pass
def overlap_collectives(module: GraphModule) -> Iterator[Rewrite]:
    """Move each start up and each wait down as far as the laws allow."""
    for node in filter(is_start, [*module.graph.nodes]):
        before = node.prev
        while not _stops(node, before) and before not in node.all_input_nodes:
            before = before.prev
        if before is not node.prev:
            yield Rewrite(f"starts behind {before.name}", node)
            module.graph.move(node, before.next)
    for node in filter(is_wait, reversed([*module.graph.nodes])):
        behind = node.next
        while (is_start(behind) or not _stops(node, behind)) and node not in behind.all_input_nodes:
            behind = behind.next
        while is_wait(behind.prev) and behind.prev is not node:
            behind = behind.prev  # waits at one place keep their order
        if behind is not node.next:
            yield Rewrite(f"waits in front of {behind.name}", node)
            module.graph.move(node, behind)


def is_wait(node: Node) -> bool:
    """Return whether a node waits for a collective."""
    return node.target is WAIT


def is_start(node: Node) -> bool:
    """Return whether a node starts a collective."""
    target = node.target
    if not isinstance(target, OpOverload) or target.namespace != NAMESPACE:
        return False
    return target is not WAIT and not target._schema.is_mutable


def _stops(mover: Node, node: Node) -> bool:
    """Return whether a start or a wait must not pass a node, whatever the node reads."""
    if is_wait(node) or is_random(node):
        return False
    return node.op in ("placeholder", "output") or must_run(node)
