"""``python -m minitorch2.autograd``: the slides' ``sin(sin(x))`` as joint graph, and both ways to
split it.
"""

import sys

import torch

from minitorch2.autograd.decompositions import DECOMPOSITIONS
from minitorch2.autograd.joint import trace_program
from minitorch2.autograd.partition import default_partition, min_cut_partition
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import SourceLine


def sin_of_sin() -> GraphModule:
    """``y = x.sin(); z = y.sin(); return z``."""
    graph = Graph()
    y = graph.call_method("sin", (graph.placeholder("x"),))
    z = graph.call_method("sin", (y,))
    y.meta["source"] = SourceLine("example.py", 2, "y = x.sin()")
    z.meta["source"] = SourceLine("example.py", 3, "z = y.sin()")
    graph.output((z,))
    return GraphModule(graph)


def main() -> None:
    """Print the example."""
    x = torch.randn(8, requires_grad=True)
    joint = trace_program(sin_of_sin(), [x], DECOMPOSITIONS, differentiate=True)
    sys.stdout.write(f"--- joint graph\n{joint.module.code}\n")
    for partition in (default_partition, min_cut_partition):
        parts = partition(joint)
        name = partition.__name__
        sys.stdout.write(f"--- {name}: {parts.saved_tensors} saved\n")
        sys.stdout.write(f"{parts.forward.code}\n{parts.backward.code}\n")


if __name__ == "__main__":
    main()
