"""Chains of views merge; a view between different kinds stays."""

import torch

from minitorch2.graph import Graph, GraphModule, Node
from minitorch2.graph.fake_tensor import run_fake, to_fake

aten = torch.ops.aten
INPUTS = [torch.randn(4, 6)]


def build() -> GraphModule:
    graph = Graph()
    x = graph.placeholder("x")
    x.meta["val"] = to_fake(INPUTS[0])

    def call(target: object, node: Node, *args: object) -> Node:
        result = graph.call_function(target, (node, *args))  # type: ignore[arg-type]
        result.meta["val"] = run_fake(target, (node.meta["val"], *args), {})  # type: ignore[arg-type]
        return result

    a = call(aten.view.default, call(aten.view.default, x, [2, 2, 6]), [24])
    b = call(aten.permute.default, call(aten.permute.default, x, [1, 0]), [-1, 0])
    c = call(aten.view.default, call(aten.view.default, x, [24]), [4, 6])
    d = call(aten.permute.default, call(aten.view.default, x, [2, 12]), [1, 0])
    graph.output(tuple(call(aten.sin.default, value) for value in (a, b, c, d)))
    return GraphModule(graph)
