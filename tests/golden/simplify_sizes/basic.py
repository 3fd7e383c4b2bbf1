"""What was found equal to another size is written as the other; other sizes stay."""

import torch

from minitorch2.graph import Graph, GraphModule
from minitorch2.graph.fake_tensor import to_fake
from minitorch2.graph.symbols import ShapeEnv, expr_of

aten = torch.ops.aten
INPUTS = [torch.randn(4, 6), torch.randn(4, 3)]
ENV = ShapeEnv(duck_shapes=False)
SIZES = [[ENV.input_size((i, d), n) for d, n in enumerate(x.shape)] for i, x in enumerate(INPUTS)]
WRITTEN_EARLY = [[expr_of(size) for size in sizes] for sizes in SIZES]
assert SIZES[0][0] == SIZES[1][0]  # here the environment learns that both have as many rows
ARGUMENTS = (ENV,)


def build() -> GraphModule:
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    for node, value, sizes in zip((x, y), INPUTS, SIZES, strict=True):
        node.meta["val"] = to_fake(value, sizes)
    (rows, columns), (same_rows, others) = WRITTEN_EARLY
    a = graph.call_function(aten.view.default, (x, [same_rows * columns]))
    b = graph.call_function(aten.view.default, (y, [rows * others]))
    c = graph.call_function(aten.full.default, ([others, 2 * same_rows], 1))
    graph.output((a, b, c))
    return GraphModule(graph)


def reference(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What the graph means; before the pass it cannot run, as no input tells the replaced size."""
    return x.reshape(-1), y.reshape(-1), torch.full((y.shape[1], 2 * x.shape[0]), 1)
