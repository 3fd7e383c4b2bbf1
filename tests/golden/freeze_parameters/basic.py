"""A parameter and a buffer become constants; what the graph writes to stays an input."""

import operator

import torch

from minitorch2.graph import Graph, GraphModule, to_fake

PARAMETER = torch.nn.Parameter(torch.tensor([2.0, 3.0]), requires_grad=False)
BUFFERS = torch.tensor([0.5, 0.5]), torch.tensor([1.0])
INPUTS = [torch.tensor([1.0, -2.0]), PARAMETER, *BUFFERS]
ARGUMENTS = (INPUTS,)


def inputs() -> list[torch.Tensor]:
    """Other values of what is an input; the parameter and the buffer are as they were frozen."""
    return [torch.randn(2), PARAMETER, BUFFERS[0], torch.randn(1)]


def build() -> GraphModule:
    graph = Graph()
    names = ("x", "weight", "mean", "count")
    x, weight, mean, count = (graph.placeholder(name) for name in names)
    for node, value in zip((x, weight, mean, count), INPUTS, strict=True):
        node.meta.update(val=to_fake(value), buffer=node in (mean, count))
    graph.call_method("add_", (count, 1))
    product = graph.call_function(operator.mul, (x, weight))
    graph.output((graph.call_function(operator.add, (product, mean)), count))
    return GraphModule(graph)
