"""Attention with a mask becomes one operator; where somebody reads the weights it stays."""

import operator

import torch
from torch.nn import functional as F

from minitorch2.graph import Graph, GraphModule, Node, to_fake

INPUTS = [torch.randn(2, 3, 5, 8) for _ in range(3)] + [torch.randn(5, 5)]
TOLERANCE = 1e-5


def build() -> GraphModule:
    graph = Graph()
    nodes = [graph.placeholder(name) for name in ("q", "k", "v", "mask")]
    for node, value in zip(nodes, INPUTS, strict=True):
        node.meta["val"] = to_fake(value)
    q, k, v, mask = nodes

    def known(node: Node) -> Node:
        values = [a.meta["val"] if isinstance(a, Node) else a for a in node.args]
        target = getattr(torch.Tensor, node.target) if isinstance(node.target, str) else node.target
        node.meta["val"] = target(*values, **node.kwargs)
        return node

    def attention(scale: float) -> tuple[Node, Node]:
        keys = known(graph.call_method("transpose", (k, 2, 3)))
        scores = known(graph.call_function(torch.matmul, (q, keys)))
        scaled = known(graph.call_function(operator.mul, (scores, scale)))
        masked = known(graph.call_function(operator.add, (scaled, mask)))
        weights = known(graph.call_function(F.softmax, (masked,), {"dim": -1}))
        return known(graph.call_function(operator.matmul, (weights, v))), weights

    fused, _ = attention(0.25)
    graph.output((fused, *attention(0.5)))
    return GraphModule(graph)
