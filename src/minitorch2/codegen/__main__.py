"""A demo of the code floor: `python -m minitorch2.codegen`.

Compiles `sin` then `cos` (the slides' running example) and a softmax; prints the wrapper modules
with their kernels, the fusion decisions, and the seconds of each phase.
"""

from __future__ import annotations

import torch

from minitorch2 import stages
from minitorch2.codegen.compile_graph import compile_graph
from minitorch2.graph.fake_tensor import to_fake
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node
from minitorch2.loopir.__main__ import call, sin_cos_graph

aten = torch.ops.aten
EXAMPLE = torch.randn(256, 1024)


def matrix_input(graph: Graph) -> Node:
    """Return a placeholder like `EXAMPLE`."""
    node = graph.placeholder("arg0_1")
    node.meta["val"] = to_fake(EXAMPLE)
    return node


def softmax_graph() -> GraphModule:
    """`x.softmax(-1)`"""
    graph = Graph()
    x = matrix_input(graph)
    shifted = call(graph, aten.sub.Tensor, x, call(graph, aten.amax.default, x, [-1], True))
    powers = call(graph, aten.exp.default, shifted)
    total = call(graph, aten.sum.dim_IntList, powers, [-1], True)
    graph.output((call(graph, aten.div.Tensor, powers, total),))
    return GraphModule(graph)


def main() -> None:
    """Compile, print and check both graphs."""
    for graph, program in (
        (sin_cos_graph(matrix_input), lambda x: (torch.sin(x), torch.cos(torch.sin(x)))),
        (softmax_graph(), lambda x: (torch.softmax(x, -1),)),
    ):
        with stages.collect() as log:
            compiled = compile_graph(graph)
        for name in ("wrapper.py", "schedule.txt"):
            print(f"# ---- {name}\n{log.texts(name)[0]}\n")
        seconds = ", ".join(f"{phase} {value:.3f} s" for phase, value in log.seconds.items())
        print(f"# ---- {seconds}")
        for result, expected in zip(compiled([EXAMPLE]), program(EXAMPLE), strict=True):
            torch.testing.assert_close(result, expected)
        print("# ---- agrees with eager PyTorch\n")


if __name__ == "__main__":
    main()
