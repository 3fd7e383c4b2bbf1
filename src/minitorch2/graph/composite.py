"""Targets of nodes that call graphs: what runs such a node says how its graphs are run.

    node ::= name = Composite(graphs...)(*inputs)

Where nobody traces, a graph is called. A tracer of the node's graph runs the other graphs as it
runs its own, so that each of their operators, a branch or a loop among them, is recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from minitorch2.graph.graph_module import GraphModule

RunGraph: TypeAlias = Callable[..., Any]
"""Runs a graph on inputs: (module, *inputs) -> outputs."""


class Composite:
    """The base of operators that consist of graphs."""

    def __call__(self, *inputs: Any) -> Any:
        """Run the operator where nobody traces it."""
        return self.run(GraphModule.__call__, *inputs)

    def run(self, run_graph: RunGraph, *inputs: Any) -> Any:
        """Run the operator; `run_graph` runs the graphs that it consists of."""
        raise NotImplementedError
