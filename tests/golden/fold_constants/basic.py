"""What depends on a constant alone becomes a constant; what reads an input stays."""

import torch

from minitorch2.graph import Graph, GraphModule

INPUTS = [torch.tensor([1.0, -2.0])]


def build() -> GraphModule:
    graph = Graph()
    x, scale = graph.placeholder("x"), graph.get_attr("scale")
    shifted = graph.call_function(torch.add, (scale, 1))
    doubled = graph.call_function(torch.mul, (shifted, 2))
    product = graph.call_function(torch.mul, (x, doubled))
    graph.output((graph.call_function(torch.add, (product, shifted)),))
    return GraphModule(graph, {"scale": torch.tensor([3.0, 5.0])})
