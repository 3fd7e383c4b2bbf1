"""A dead chain goes; a dead random operator stays."""

import operator

import torch

from minitorch2.graph import Graph, GraphModule

INPUTS = [torch.tensor([1.0, -2.0])]


def build() -> GraphModule:
    graph = Graph()
    x = graph.placeholder("x")
    dead = graph.call_function(torch.sin, (x,))
    graph.call_function(torch.cos, (dead,))
    graph.call_function(torch.rand, (2,))
    noise = graph.call_function(torch.rand, (2,))
    graph.output((graph.call_function(operator.add, (x, noise)),))
    return GraphModule(graph)
