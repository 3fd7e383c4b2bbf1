"""``python -m minitorch2.graph``: the slides' toy graph as a table and as code, before and after
passes.
"""

import operator
import sys
from collections.abc import Callable

import torch

from minitorch2.graph.fake_tensor import to_fake
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import SourceLine
from minitorch2.graph.passes import eliminate_common_subexpressions, eliminate_dead_code
from minitorch2.graph.verify import verify


def toy_graph() -> GraphModule:
    """``x = a / (torch.abs(a) + 1); return x, b.sum() < 0``, with |a| computed twice."""
    graph = Graph()
    a, b = graph.placeholder("a"), graph.placeholder("b")
    a.meta["val"] = b.meta["val"] = to_fake(torch.empty(10))
    graph.call_function(torch.abs, (a,))
    magnitude = graph.call_function(torch.abs, (a,))
    shifted = graph.call_function(operator.add, (magnitude, 1))
    quotient = graph.call_function(operator.truediv, (a, shifted))
    total = graph.call_method("sum", (b,))
    graph.output((quotient, graph.call_function(operator.lt, (total, 0))))
    for node in (magnitude, shifted, quotient):
        node.meta["source"] = SourceLine("toy.py", 3, "x = a / (torch.abs(a) + 1)")
    total.meta["source"] = SourceLine("toy.py", 4, "if b.sum() < 0:")
    return GraphModule(graph)


def main() -> None:
    """Print the example."""
    module = toy_graph()
    steps: dict[str, Callable[[GraphModule], object]] = {
        "as built": verify,
        "common subexpressions": eliminate_common_subexpressions,
        "dead code": eliminate_dead_code,
    }
    for title, run in steps.items():
        run(module)
        sys.stdout.write(f"--- {title}\n{module.graph.tabular()}\n\n")
    sys.stdout.write(module.code)
    sys.stdout.write(f"\n{module(torch.tensor([1.0, -3.0]), torch.ones(2))}\n")


if __name__ == "__main__":
    main()
