"""Left out is what changes no bit; ``x + 0`` of floats stays, since ``-0.0 + 0`` is ``0.0``."""

import torch

from minitorch2.graph import Graph, GraphModule, Node
from minitorch2.graph.fake_tensor import run_fake, to_fake

aten = torch.ops.aten
INPUTS = [torch.tensor([1.0, -2.0, -0.0, float("nan"), float("-inf")])]


def build() -> GraphModule:
    graph = Graph()
    x = graph.placeholder("x")
    x.meta["val"] = to_fake(INPUTS[0])

    def call(target: object, node: Node, *args: object, **kwargs: object) -> Node:
        result = graph.call_function(target, (node, *args), kwargs)  # type: ignore[arg-type]
        result.meta["val"] = run_fake(target, (node.meta["val"], *args), kwargs)  # type: ignore[arg-type]
        return result

    a = call(aten.add.Tensor, call(aten.mul.Tensor, x, 1), 0)
    b = call(aten.abs.default, call(aten.neg.default, call(aten.abs.default, a)))
    c = call(aten.neg.default, call(aten.neg.default, call(aten.div.Tensor, x, 1.0)))
    wide = call(aten._to_copy.default, c, dtype=torch.float64)
    d = call(aten._to_copy.default, wide, dtype=torch.float32)
    graph.output(tuple(call(aten.sin.default, value) for value in (a, b, c, d)))
    return GraphModule(graph)
