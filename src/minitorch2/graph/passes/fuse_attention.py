"""Let one operator do attention that is written by hand.

Law::

    softmax(q @ k.mT * scale + mask) @ v  -->  scaled_dot_product_attention(q, k, v, mask, scale)

The ways to write the left side are the rules in ``graph/patterns/attention.py``. For captured
graphs, before they are differentiated: the operator has a gradient of its own, which never stores
the matrix of weights.
"""

from __future__ import annotations

from collections.abc import Iterator

from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.patterns import FAMILIES, apply_rules
from minitorch2.graph.rewriting import Rewrite, graph_pass


@graph_pass
def fuse_attention(module: GraphModule) -> Iterator[Rewrite]:
    """Replace attention if only its own product with the values reads the weights."""
    if any("softmax" in str(node.target) for node in module.graph.nodes):
        yield from apply_rules(module, FAMILIES["fuse_attention"])
