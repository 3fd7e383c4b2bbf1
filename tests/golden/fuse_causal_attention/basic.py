"""Attention with a triangle as its mask knows that it is causal; another mask stays."""

import torch
from torch.nn import functional as F

from minitorch2.graph import Graph, GraphModule, Node, to_fake

INPUTS = [torch.randn(2, 3, 5, 8) for _ in range(3)]
TOLERANCE = 1e-5


def build() -> GraphModule:
    graph = Graph()
    q, k, v = (graph.placeholder(name) for name in ("q", "k", "v"))
    for node, value in zip((q, k, v), INPUTS, strict=True):
        node.meta["val"] = to_fake(value)

    def known(node: Node) -> Node:
        values = [a.meta["val"] if isinstance(a, Node) else a for a in node.args]
        target = getattr(torch.Tensor, node.target) if isinstance(node.target, str) else node.target
        value = target(*values, **node.kwargs)
        node.meta["val"] = value if value.device.type == "meta" else to_fake(value)
        return node

    def attention(diagonal: int) -> Node:
        ones = known(graph.call_function(torch.ones, ((5, 5),)))
        mask = known(graph.call_method("triu", (ones, diagonal)))
        hidden = known(graph.call_method("bool", (mask,)))
        keys = known(graph.call_method("transpose", (k, 2, 3)))
        scores = known(graph.call_function(torch.matmul, (q, keys)))
        masked = known(graph.call_method("masked_fill", (scores, hidden, float("-inf"))))
        weights = known(graph.call_function(F.softmax, (masked,), {"dim": -1}))
        return known(graph.call_function(torch.matmul, (weights, v)))

    graph.output((attention(1), attention(2)))
    return GraphModule(graph)
