"""Bags that are the rows of a matrix are opened; bags that offsets cut are left alone."""

import torch
from torch.nn import functional as F

from minitorch2.graph import Graph, GraphModule, to_fake

INPUTS = [
    torch.tensor([[0, 3, 3], [2, 4, 1]]), torch.randn(5, 4), torch.rand(2, 3), torch.tensor([0, 2]),
]  # fmt: skip
TOLERANCE = 1e-6


def inputs() -> list[torch.Tensor]:
    return [INPUTS[0].flip(0), torch.randn(5, 4), torch.rand(2, 3), torch.tensor([0, 5])]


def build() -> GraphModule:
    graph = Graph()
    x, w, p, offsets = nodes = [graph.placeholder(name) for name in ("x", "w", "p", "offsets")]
    for node, value in zip(nodes, INPUTS, strict=True):
        node.meta["val"] = to_fake(value)
    flat = graph.call_method("reshape", (x, -1))
    flat.meta["val"] = to_fake(INPUTS[0].reshape(-1))
    bags = [
        graph.call_function(F.embedding_bag, (x, w)),
        graph.call_function(F.embedding_bag, (x, w), {"mode": "sum"}),
        graph.call_function(F.embedding_bag, (x, w), {"mode": "sum", "per_sample_weights": p}),
        graph.call_function(F.embedding_bag, (flat, w, offsets)),
    ]
    for bag in bags:
        bag.meta["val"] = to_fake(torch.empty(2, 4))
    graph.output(tuple(bags))
    return GraphModule(graph)
