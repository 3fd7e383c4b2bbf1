"""Equal chains merge; different keyword arguments do not."""

import torch

from minitorch2.graph import Graph, GraphModule

INPUTS = [torch.tensor([[1.0, -2.0], [3.0, 0.5]])]


def build() -> GraphModule:
    graph = Graph()
    x = graph.placeholder("x")
    sines = [graph.call_function(torch.sin, (x,)) for _ in range(2)]
    a, b = (graph.call_function(torch.exp, (s,)) for s in sines)
    c, d = (graph.call_method("sum", (x,), {"dim": dim}) for dim in (0, 1))
    total = a
    for term in (b, c, d):
        total = graph.call_function(torch.add, (total, term))
    graph.output((total,))
    return GraphModule(graph)
