"""Conversion between our graphs and those of ``torch.fx``: the only place that knows ``torch.fx``.

Both IRs have the same six opcodes, so that a conversion is a copy of the nodes.
"""

from __future__ import annotations

import inspect
import operator
import typing
from collections.abc import Callable
from functools import reduce
from typing import Any, Final, TypeVar

import sympy
import torch
import torch.fx

from minitorch2.errors import UnsupportedError
from minitorch2.foundation.generated_code import execute, new_file
from minitorch2.graph.fake_tensor import env_of
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.higher_order import Cond
from minitorch2.graph.node import Argument, Node, map_items, map_nodes
from minitorch2.graph.printer import symbol_sizes
from minitorch2.graph.symbols import bindings, expr_of, free_symbols
from minitorch2.graph.symbols.division import FloorDiv, ModularIndexing
from minitorch2.graph.symbols.expression import SYMBOLIC
from minitorch2.graph.symbols.floats import PYTHON_OPERATIONS, FloatOperation
from minitorch2.graph.symbols.shape_env import map_expressions

Function = TypeVar("Function", bound=Callable[..., Any])
_MARK: Final = "_minitorch2_fx_backend"


def fx_backend(backend: Function) -> Function:
    """Mark a backend as one that takes a ``torch.fx.GraphModule``, if no annotation says so."""
    setattr(backend, _MARK, True)
    return backend


def wants_torch_fx(backend: Callable[..., Any]) -> bool:
    """Return whether a backend takes a ``torch.fx.GraphModule``, by a mark or by its annotation."""
    if getattr(backend, _MARK, False):
        return True
    try:
        first = next(iter(inspect.signature(backend).parameters.values()), None)
    except (TypeError, ValueError):  # some builtins have no signature
        return False
    annotation = getattr(first, "annotation", None)
    if first is not None and isinstance(annotation, str):
        is_named = annotation.endswith("fx.GraphModule")
        return is_named or _resolved(backend, first.name) is torch.fx.GraphModule
    return annotation is torch.fx.GraphModule


def _resolved(backend: Callable[..., Any], parameter: str) -> Any:
    try:
        return typing.get_type_hints(backend).get(parameter)
    except (NameError, TypeError, AttributeError):  # it names something not importable
        return None


def adapt_fx_backend(backend: Callable[..., Any]) -> Callable[..., Any]:
    """Return a backend for our graphs that converts them and calls one for ``torch.fx`` graphs."""

    def adapted(gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        sizes = size_arguments(gm)
        numbers = [number.node.hint for number in sizes.values()]
        compiled: Callable[..., Any] = backend(to_torch_fx(gm), [*numbers, *example_inputs])
        return with_sizes(compiled, gm) if sizes else compiled

    adapted.__name__ = getattr(backend, "__name__", "backend")
    return adapted


def to_torch_fx(module: GraphModule) -> torch.fx.GraphModule:
    """Return the same graph as a ``torch.fx.GraphModule``; ``meta["val"]`` becomes
    ``meta["example_value"]`` too.

    Sizes that its arguments use are placeholders in front of the others, and expressions of them
    are nodes, as in ``torch.compile``.
    """
    graph = torch.fx.Graph()
    copies: dict[Node, torch.fx.Node] = {}
    arithmetic = _SizeNodes(graph)
    for symbol, number in size_arguments(module).items():
        arithmetic.add_placeholder(symbol, number)
    for node in module.graph.nodes:
        args = map_expressions(map_nodes(node.args, copies.__getitem__), arithmetic.node)
        kwargs = map_expressions(map_nodes(dict(node.kwargs), copies.__getitem__), arithmetic.node)
        copy = graph.create_node(node.op, node.target, args, kwargs, name=node.name)
        copy.meta = dict(node.meta)
        if "val" in node.meta:
            copy.meta["example_value"] = node.meta["val"]
        copies[node] = copy
        if node.op == "placeholder" and isinstance(node.meta.get("val"), SYMBOLIC):
            arithmetic.nodes[expr_of(node.meta["val"])] = copy
    root = torch.nn.Module()
    for name, value in module.attributes.items():
        if "." not in name:
            _attach(root, name, value)
    return torch.fx.GraphModule(root, graph)


def size_arguments(module: GraphModule) -> dict[sympy.Symbol, Any]:
    """Return the size symbols that arguments of the graph use and that are not inputs yet."""
    wanted: set[sympy.Symbol] = set()
    for node in module.graph.nodes:
        wanted |= free_symbols((node.args, dict(node.kwargs)))
    values = [node.meta.get("val") for node in module.graph.placeholders]
    given = {expr_of(value) for value in values if isinstance(value, SYMBOLIC)}
    sizes = [size for v in values if isinstance(v, torch.Tensor) for size in v.shape]
    env = env_of(sizes)
    missing = sorted(wanted - given, key=str)
    return {} if env is None else {symbol: env.number_of(symbol) for symbol in missing}


def with_sizes(compiled: Callable[..., Any], module: GraphModule) -> Callable[..., Any]:
    """Return a function of the graph's own inputs, which reads the sizes off them."""
    wanted = size_arguments(module)
    placeholders = [*enumerate(module.graph.placeholders)]
    sizes = [pair for i, node in placeholders for pair in symbol_sizes(node, f"x{i}")]
    texts = dict(bindings(sizes, wanted))
    names = "".join(f"x{i}, " for i, _ in placeholders)
    numbers = "".join(f"{texts[symbol]}, " for symbol in wanted)
    namespace: dict[str, Any] = {"compiled": compiled}
    text = f"def call({names}):\n    return compiled({numbers}{names})"
    execute(text, new_file("sizes", "call"), namespace)
    return namespace["call"]  # type: ignore[no-any-return]


class _SizeNodes:
    """Size expressions as nodes of a ``torch.fx`` graph; equal ones are one node."""

    def __init__(self, graph: torch.fx.Graph) -> None:
        self.graph = graph
        self.nodes: dict[sympy.Expr, torch.fx.Node] = {}

    def add_placeholder(self, symbol: sympy.Symbol, number: Any) -> None:
        """An input for a size."""
        node = self.nodes[symbol] = self.graph.placeholder(str(symbol))
        node.meta.update(val=number, example_value=number)

    def node(self, expr: Any) -> Any:
        """Return the node (or plain number) that has the value of an expression."""
        if expr.is_Integer or isinstance(expr, sympy.Float):
            return int(expr) if expr.is_Integer else float(expr)
        if expr not in self.nodes:
            self.nodes[expr] = self._make(expr)
        return self.nodes[expr]

    def _make(self, expr: sympy.Expr) -> torch.fx.Node:
        parts = [self.node(part) for part in expr.args]
        if isinstance(expr, FloorDiv):
            return self.graph.call_function(operator.floordiv, tuple(parts))
        if isinstance(expr, ModularIndexing):
            quotient = self.graph.call_function(operator.floordiv, (parts[0], parts[1]))
            return self.graph.call_function(operator.mod, (quotient, parts[2]))
        if isinstance(expr, FloatOperation):
            return self.graph.call_function(PYTHON_OPERATIONS[type(expr)], tuple(parts))
        function = next((f for kind, f in _FOLDS.items() if isinstance(expr, kind)), None)
        if function is None:
            raise UnsupportedError(f"no torch.fx form of the size {expr}")
        node: torch.fx.Node = reduce(lambda a, b: self.graph.call_function(function, (a, b)), parts)
        return node


_FOLDS: Final[dict[type, Callable[..., Any]]] = {
    sympy.Add: operator.add,
    sympy.Mul: operator.mul,
    sympy.Pow: operator.pow,
    sympy.Max: max,
    sympy.Min: min,
}


def _attach(root: torch.nn.Module, name: str, value: object) -> None:
    if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
        root.register_buffer(name, value)
    else:
        setattr(root, name, value)


def from_torch_fx(module: torch.fx.GraphModule) -> GraphModule:
    """Return a ``torch.fx`` graph as ours. The module's own attributes stay shared, not copied.

    Raises UnsupportedError for opcodes or arguments that only ``torch.fx`` has.
    """
    graph = Graph()
    copies: dict[torch.fx.Node, Node] = {}
    attributes: dict[str, object] = {}
    for node in module.graph.nodes:
        if node.op == "get_attr" and isinstance(_attribute(module, node), torch.fx.GraphModule):
            continue  # an argument of an operator that takes graphs
        if node.target is torch.ops.higher_order.cond:
            copies[node] = _branch(graph, module, node, copies)
            continue
        args, kwargs = _from_fx(node.args, copies), _from_fx(dict(node.kwargs), copies)
        if node.op == "output":
            copies[node] = graph.output(args[0])
            continue
        if node.op == "placeholder":
            args, kwargs = (), {}
        if node.op in ("get_attr", "call_module"):
            attributes[str(node.target)] = _attribute(module, node)
        copies[node] = graph.create_node(node.op, node.target, args, kwargs, name=node.name)
    return GraphModule(graph, attributes)


def _branch(
    graph: Graph,
    module: torch.fx.GraphModule,
    node: torch.fx.Node,
    copies: dict[torch.fx.Node, Node],
) -> Node:
    """``torch.cond``, whose branches are graphs that the module holds."""
    arguments: Any = node.args
    condition, *branches, operands = arguments
    graphs = [from_torch_fx(_attribute(module, each)) for each in branches]
    numbers = [place for place, item in enumerate(operands) if _is_number(item)]
    for parameter in (g.graph.placeholders[place] for g in graphs for place in reversed(numbers)):
        if parameter.users:
            raise UnsupportedError("a branch of torch.cond that computes with a number")
        parameter.graph.erase(parameter)
    tensors = [item for place, item in enumerate(operands) if place not in numbers]
    return graph.call_function(Cond(*graphs), (copies[condition], *_from_fx(tensors, copies)))


def _is_number(operand: Any) -> bool:
    """Return whether an operand is a size, which PyTorch's capture passes beside the tensors."""
    if not isinstance(operand, torch.fx.Node):
        return True
    return isinstance(operand.meta.get("example_value", operand.meta.get("val")), SYMBOLIC)


def _from_fx(value: Any, copies: dict[torch.fx.Node, Node]) -> Argument:
    if isinstance(value, torch.fx.Node) and value in copies:
        return copies[value]
    if isinstance(value, torch.fx.Node | torch.fx.GraphModule):
        raise UnsupportedError(f"an operator that takes a graph as an argument: {value}")
    return map_items(value, lambda item: _from_fx(item, copies))


def _attribute(module: torch.fx.GraphModule, node: torch.fx.Node) -> Any:
    """Return the attribute that a node reads or calls."""
    return reduce(getattr, str(node.target).split("."), module)
