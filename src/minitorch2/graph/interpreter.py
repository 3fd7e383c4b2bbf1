"""Run a graph node by node, with every step open to a subclass.

The layers above are interpreters of a graph in this sense: on real tensors, on fake tensors, on
loop bodies. Override a method per opcode, or give ``overrides`` per target.
PyTorch's counterpart is ``torch.fx.Interpreter``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Argument, Node, Target, map_nodes


class Interpreter:
    """The interpreter of a GraphModule.

    Args:
        module: what to run.
        overrides: functions that replace call_function targets (or call_method names).

    >>> import operator
    >>> from minitorch2.graph.graph import Graph
    >>> graph = Graph()
    >>> x = graph.placeholder("x")
    >>> _ = graph.output(graph.call_function(operator.add, (x, 1)))
    >>> Interpreter(GraphModule(graph), {operator.add: operator.mul}).run(5)
    5
    """

    def __init__(
        self, module: GraphModule, overrides: Mapping[Target, Callable[..., Any]] | None = None
    ) -> None:
        self.module = module
        self.overrides = dict(overrides or {})
        self.values: dict[Node, Any] = {}
        self._inputs: list[Any] = []

    def run(self, *inputs: Any) -> Any:
        """Return the output for these inputs; values are dropped after their last use."""
        self._inputs = list(reversed(inputs))
        last_use = last_uses(self.module.graph.nodes)
        result: Any = None
        for node in self.module.graph.nodes:
            result = self.values[node] = self.run_node(node)
            for dead in last_use.get(node, ()):
                del self.values[dead]
        self.values.clear()
        return result

    def run_node(self, node: Node) -> Any:
        """Run one node: looks up its arguments and calls the method named as the opcode."""
        args = self.load(node.args)
        kwargs = self.load(dict(node.kwargs))
        result: Any = getattr(self, node.op)(node.target, args, kwargs)
        return result

    def load(self, argument: Argument) -> Any:
        """Return an argument with the nodes replaced by their values."""
        return map_nodes(argument, self.values.__getitem__)

    def placeholder(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the next input. Raises TypeError when there are too few."""
        if not self._inputs:
            raise TypeError(f"missing the input {target!r}")
        return self._inputs.pop()

    def get_attr(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return an attribute of the module."""
        return self.module.lookup(target)

    def call_function(
        self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call the target, or its override."""
        return self.overrides.get(target, target)(*args, **kwargs)

    def call_method(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of the first argument, or its override."""
        if target in self.overrides:
            return self.overrides[target](*args, **kwargs)
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a submodule."""
        return self.module.lookup(target)(*args, **kwargs)

    def output(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of the graph."""
        return args[0]


def last_uses(nodes: Any) -> dict[Node, list[Node]]:
    """Return, for each node, the nodes that it is the last to read (itself, if it has no users)."""
    last: dict[Node, Node] = {}
    for node in nodes:
        last[node] = node
        for used in node.all_input_nodes:
            last[used] = node
    result: dict[Node, list[Node]] = {}
    for node, reader in last.items():
        if node.op != "output":
            result.setdefault(reader, []).append(node)
    return result
