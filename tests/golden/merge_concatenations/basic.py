"""Parts that come together again, nested concatenations, and a slice of one part."""

import torch

from minitorch2.graph import Graph, GraphModule, Node
from minitorch2.graph.fake_tensor import run_fake, to_fake

aten = torch.ops.aten
INPUTS = [torch.randn(4, 6), torch.randn(4, 3)]


def build() -> GraphModule:
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    x.meta["val"], y.meta["val"] = map(to_fake, INPUTS)

    def slice_of(node: Node, start: int, end: int) -> Node:
        result = graph.call_function(aten.slice.Tensor, (node, 1, start, end))
        result.meta["val"] = node.meta["val"].narrow(1, start, end - start)
        return result

    def cat(*nodes: Node) -> Node:
        result = graph.call_function(aten.cat.default, (list(nodes), 1))
        values = [node.meta["val"] for node in nodes]
        result.meta["val"] = run_fake(aten.cat.default, (values, 1), {})
        return result

    parts = [slice_of(x, 0, 2), slice_of(x, 2, 6)]
    whole = cat(*parts)
    swapped = cat(*reversed(parts))
    nested = cat(y, cat(x, y))
    both = cat(x, y)
    inside, across = slice_of(both, 6, 8), slice_of(both, 5, 8)
    results = (whole, swapped, nested, inside, across)
    graph.output(tuple(graph.call_function(aten.sin.default, (value,)) for value in results))
    return GraphModule(graph)
