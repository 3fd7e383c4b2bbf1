"""Parts of a program recorded apart, to become one node of the captured graph.

A function with a gradient of its own, or one that is recomputed, is evaluated symbolically like any
other code, but into its own graph. The tensors that it takes from around it become the inputs of
that graph. So guards and side effects are found as usual, and the node's target is a callable that
every backend can run or trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sympy

from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.foundation.blocks import replacing
from minitorch2.graph.effects import is_random, written_by
from minitorch2.graph.fake_tensor import FakeTensor, same_storage
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node, map_nodes
from minitorch2.graph.raising import is_marked
from minitorch2.graph.symbols import free_symbols


@dataclass
class Subgraph:
    """The operations that a call recorded, as a graph of their own.

    Attributes:
        graph: its operations; they still read nodes of the graphs around.
        result: the tracker of the call's result.
    """

    graph: Graph
    result: VariableTracker

    def close(
        self, outputs: Sequence[Node], last: Sequence[Node] = ()
    ) -> tuple[GraphModule, list[Node]]:
        """Make placeholders of the nodes from the graphs around.

        Args:
            outputs: the nodes whose values the graph gives.
            last: nodes from around that come last, whether they are read or not.

        Returns:
            the graph as a callable, and the nodes to give to it.
        """
        graph = self.graph
        for node in reversed(graph.nodes):
            if not node.users and node not in outputs and not is_marked(node):
                graph.erase(node)
        inputs = [*(node for node in self.read(outputs) if node not in last), *last]
        first = next(iter(graph.nodes), None)
        with graph.inserting_before(first):
            made = {node: self._placeholder(node) for node in inputs}
        swap: Callable[[Node], Node] = lambda node: made.get(node, node)  # noqa: E731
        for node in graph.nodes:
            node.meta["inside"] = True
            if node.op != "placeholder":
                node.update_args(map_nodes(node.args, swap), map_nodes(node.kwargs, swap))
        graph.output(tuple(swap(node) for node in outputs))
        return GraphModule(graph), inputs

    def read(self, outputs: Sequence[Node] = ()) -> list[Node]:
        """Return the nodes from around that are read, or among the outputs."""
        read = [found for node in self.graph.nodes for found in node.all_input_nodes]
        return list(dict.fromkeys(n for n in (*read, *outputs) if n.graph is not self.graph))

    def check_repeatable(self, code: str, draws: str | None) -> None:
        """Check that the part can run again: it writes nothing outside, and draws no numbers.

        Args:
            code: the code of the graph break.
            draws: says where it may not draw random numbers; None where it may.
        """
        outside = [node.meta["val"] for node in self.read()]
        for node in self.graph.nodes:
            values = [used.meta["val"] for used in written_by(node)]
            if any(same_storage(value, other) for value in values for other in outside):
                unsupported(code, f"{node.name} writes to a tensor from outside")
            if draws is not None and is_random(node):
                unsupported(code, f"{node.name} draws random numbers {draws}")

    def symbols(self) -> set[sympy.Symbol]:
        """Return the sizes that are arguments of its operations."""
        arguments = [(node.args, dict(node.kwargs)) for node in self.graph.nodes]
        return free_symbols(arguments)

    def _placeholder(self, node: Node) -> Node:
        made = self.graph.placeholder(node.name)
        made.meta.update(val=node.meta["val"], source=node.meta.get("source"))
        return made


def new_input(evaluator: Evaluator, name: str, fake: FakeTensor) -> TensorVariable:
    """Return a node that stands for a value given to a part when it runs."""
    graph = evaluator.capture.graph
    node = graph.placeholder(name)
    graph.erase(node)
    node.meta.update(val=fake, source=evaluator.source_line())
    return TensorVariable(node, fake)


def record(evaluator: Evaluator, call: Callable[[], VariableTracker]) -> Subgraph:
    """Evaluate a call into a graph of its own.

    Raises:
        UnsupportedError: the call changes an object that outlives it. The part may run again, or
            later, or not at all, so that the change would show.
    """
    capture = evaluator.capture
    writes = capture.side_effects.writes
    with replacing(capture, "graph", Graph()) as graph, capture.side_effects.apart():
        result = call()
    if capture.side_effects.writes != writes:
        unsupported("side-effect-inside", "a change of Python objects inside the function")
    return Subgraph(graph, result)
