"""A demo of the loop floor: `python -m minitorch2.loopir [--operators]`.

Prints two lowered graphs: `torch.log2` of a matrix with symbolic sizes, decomposed to log and mul
(PyTorch 2 paper, figure 2), and `sin` then `cos` (the slides' running example). Or, with
`--operators`, which operators have lowerings.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import torch

from minitorch2.graph.fake_tensor import FakeTensor, to_fake
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node, map_nodes
from minitorch2.graph.symbols import ShapeEnv
from minitorch2.loopir.coverage import coverage, listing
from minitorch2.loopir.interpret import interpret
from minitorch2.loopir.lower_graph import lower_graph
from minitorch2.loopir.ops import PRIMITIVES

aten = torch.ops.aten
LOG2_SCALE = 1 / math.log(2)
EXAMPLE = torch.rand(8, 4) + 0.5


def matrix_input(graph: Graph) -> Node:
    """Return a placeholder of size (s0, s1)."""
    env = ShapeEnv()
    node = graph.placeholder("arg0_1")
    node.meta["val"] = to_fake(EXAMPLE, [env.new_size(f"s{d}", n) for d, n in enumerate((8, 4))])
    return node


def call(graph: Graph, target: Callable[..., FakeTensor], *args: object) -> Node:
    """Return a node with its fake value."""
    node = graph.call_function(target, args)
    node.meta["val"] = target(*map_nodes(args, lambda n: n.meta["val"]))
    return node


def log2_graph() -> GraphModule:
    """`torch.log2(x)` after decomposition."""
    graph = Graph()
    log = call(graph, aten.log.default, matrix_input(graph))
    graph.output((call(graph, aten.mul.Tensor, log, LOG2_SCALE),))
    return GraphModule(graph)


def sin_cos_graph(make_input: Callable[[Graph], Node] = matrix_input) -> GraphModule:
    """`y = x.sin(); z = y.cos(); return y, z`"""
    graph = Graph()
    sin = call(graph, aten.sin.default, make_input(graph))
    graph.output((sin, call(graph, aten.cos.default, sin)))
    return GraphModule(graph)


def main() -> None:
    """Print two graphs, lowered, and their results; or the operators that have lowerings."""
    if "--operators" in sys.argv[1:]:
        found = coverage()
        print(*listing("loops", found.loops), *listing("library", found.library), sep="\n")
        print(f"\n{found}")
        return
    print(f"The loop IR has {len(PRIMITIVES)} primitives.")
    for title, gm in (("torch.log2(x)", log2_graph()), ("sin, then cos", sin_cos_graph())):
        lowered = lower_graph(gm)
        print(f"\n# {title}\n\n{lowered.print()}")
        for decision in lowered.decisions:
            what = "stored" if decision.stored else "inlined"
            print(f"# {decision.name}: {what}, {decision.reason}")
        difference = (interpret(lowered, [EXAMPLE])[0] - gm(EXAMPLE)[0]).abs().max()
        print(f"# largest difference between the NumPy interpreter and eager: {difference:.1e}")


if __name__ == "__main__":
    main()
