"""Targets of nodes that call graphs; whoever runs such a node decides how its graphs run.

    node ::= name = Composite(graphs...)(*inputs)

Without a tracer, a graph is called as a function. A tracer of the node's graph runs the called
graphs as it runs its own graph. So it records each of their operators, branches and loops included.
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
        """Run the operator without a tracer."""
        return self.run(GraphModule.__call__, *inputs)

    def run(self, run_graph: RunGraph, *inputs: Any) -> Any:
        """Run the operator; `run_graph` runs the graphs that it consists of."""
        raise NotImplementedError
