"""Let one operator do attention that is written by hand.

Law::

    softmax(q @ k.mT * scale + mask) @ v  -->  scaled_dot_product_attention(q, k, v, mask, scale)

A mask that is causal for all inputs becomes ``is_causal``, so that half of the work is left
out. The ways to write the left side are the rules in ``graph/patterns/attention.py``. For captured
graphs, before they are differentiated: the operator has a gradient of its own, which never stores
the matrix of weights.
"""

from __future__ import annotations

from collections.abc import Iterator

from minitorch2.graph.constant_masks import constant_masks
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.patterns import FAMILIES, apply_rules
from minitorch2.graph.rewriting import Rewrite, graph_pass


@graph_pass
def fuse_attention(module: GraphModule) -> Iterator[Rewrite]:
    """Replace attention if only its own product with the values reads the weights."""
    names = [str(node.target) for node in module.graph.nodes]
    if not any("softmax" in name or "scaled_dot_product" in name for name in names):
        return
    masks = constant_masks(module)
    for node, value in masks.items():
        node.meta["val"].known = value
    causal = FAMILIES["fuse_causal_attention"] if masks else []
    yield from apply_rules(module, [*causal, *FAMILIES["fuse_attention"]])
    for node in masks:
        node.meta["val"].known = None
