"""A normalization of a convolution with constant weights; what varies is left alone."""

import torch
from torch.nn import functional as F

from minitorch2.graph import Graph, GraphModule, to_fake

INPUTS = [torch.randn(2, 3, 6, 6), torch.rand(4) + 0.5]
WEIGHTS = {
    "w": torch.randn(4, 3, 3, 3),
    "b": torch.randn(4),
    "mean": torch.randn(4),
    "variance": torch.rand(4) + 0.5,
    "weight": torch.randn(4),
    "bias": torch.randn(4),
}
TOLERANCE = 1e-5


def build() -> GraphModule:
    graph = Graph()
    x, moving = graph.placeholder("x"), graph.placeholder("moving")
    x.meta["val"], moving.meta["val"] = map(to_fake, INPUTS)
    held = {name: graph.get_attr(name) for name in WEIGHTS}
    for name, node in held.items():
        node.meta["val"] = to_fake(WEIGHTS[name])
    results = []
    for variance in (held["variance"], moving):
        strides = ((2, 2), (1, 1), (1, 1), 1)
        convolved = graph.call_function(torch.conv2d, (x, held["w"], held["b"], *strides))
        statistics = (held["mean"], variance, held["weight"], held["bias"], False, 0.1, 1e-5)
        normal = graph.call_function(F.batch_norm, (convolved, *statistics))
        convolved.meta["val"] = normal.meta["val"] = to_fake(torch.empty(2, 4, 3, 3))
        results.append(normal)
    graph.output(tuple(results))
    return GraphModule(graph, dict(WEIGHTS))
