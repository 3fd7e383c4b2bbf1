"""Random masks are kept as bools.

Law::

    mask = bernoulli(x, p)    -->    bools = bernoulli(x, p) != 0; mask = bools.to(mask.dtype)

The numbers of a mask are 0 and 1, so that backward, which must not draw them again, can read them
from a byte an element instead of four. Both new operators are pointwise: where nothing is saved
they vanish in the kernels around them.
"""

from __future__ import annotations

from typing import Any

import torch

from minitorch2.graph.fake_tensor import run_fake
from minitorch2.graph.graph import Graph
from minitorch2.graph.node import Node, map_nodes
from minitorch2.graph.random_operators import bernoulli

aten = torch.ops.aten
_BERNOULLI = (bernoulli, aten.bernoulli.p, aten.bernoulli.default)


def keep_masks_as_bools(joint: Graph) -> None:
    """Let all readers of a random mask read it from bools."""
    for node in list(joint.nodes):
        if node.op == "call_function" and node.target in _BERNOULLI:
            _keep_as_bools(joint, node)


def _keep_as_bools(joint: Graph, mask: Node) -> None:
    users = list(mask.users)
    with joint.inserting_before(mask.next):
        bools = _call(joint, mask, aten.ne.Scalar, (mask, 0), {})
        dtype = mask.meta["val"].dtype
        wide = _call(joint, mask, aten._to_copy.default, (bools,), {"dtype": dtype})
    for user in users:
        user.replace_input(mask, wide)


def _call(
    joint: Graph, mask: Node, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Node:
    node = joint.call_function(target, args, kwargs)
    values = map_nodes(args, lambda used: used.meta["val"])
    node.meta = {**mask.meta, "val": run_fake(target, values, kwargs)}
    return node
