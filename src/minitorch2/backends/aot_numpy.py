"""Run the loops of forward and backward with NumPy: checks lowering without code generation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitorch2.autograd import aot_autograd
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.higher_order import graphs_called_by
from minitorch2.loopir.interpret import interpret
from minitorch2.loopir.lower_graph import lower_graph


def interpret_loops(
    gm: GraphModule, example_inputs: Sequence[Any] = ()
) -> Callable[[list[Any]], list[Any]]:
    """Return a compiler in the boxed convention that lowers the graph and interprets its loops."""
    for inner in dict.fromkeys(graphs_called_by(gm.graph)):
        inner.run_by(interpret_loops(inner))
    lowered = lower_graph(gm, example_inputs)

    def run(args: list[Any]) -> list[Any]:
        inputs = [*args]
        args.clear()
        return interpret(lowered, inputs)

    return run


def aot_numpy(gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Lower forward and backward to loops, as for kernels, and run them with NumPy.

    It is slow. Each primitive has the meaning that code generators are tested against.
    """
    return aot_autograd(gm, example_inputs, forward_compiler=interpret_loops)
