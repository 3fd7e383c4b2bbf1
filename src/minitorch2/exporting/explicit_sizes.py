"""Sizes as nodes: each expression of sizes in an argument becomes the nodes that compute it.

Law::

    y = aten.expand(x, [2*s0, 4])     -->     s0 = aten.sym_size(x, 0); m = s0 * 2
                                              y = aten.expand(x, [m, 4])

A graph without expressions runs, and is written to a file, without the algebra of sizes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, Final

import sympy
import torch

from minitorch2.errors import ExportError
from minitorch2.exporting.input_sizes import InputSizes
from minitorch2.graph.graph import Graph
from minitorch2.graph.node import Argument, Node, map_nodes
from minitorch2.graph.runtime_checks import is_check
from minitorch2.graph.symbol_nodes import is_symbol_node
from minitorch2.graph.symbols import expr_of
from minitorch2.graph.symbols.conditions import RELATIONS, AllOf, AnyOf, Comparison, Negation
from minitorch2.graph.symbols.division import FloorDiv, ModularIndexing
from minitorch2.graph.symbols.floats import PYTHON_OPERATIONS, FloatOperation
from minitorch2.graph.symbols.shape_env import map_expressions

_FOLDS: Final[dict[type, Callable[..., Any]]] = {
    sympy.Add: operator.add, sympy.Mul: operator.mul, sympy.Pow: operator.pow,
    sympy.Max: max, sympy.Min: min,
}  # fmt: skip


def make_sizes_explicit(
    graph: Graph, inputs: Mapping[Node, str], sizes: InputSizes | None
) -> Graph:
    """Return the same graph, in which no argument is an expression of sizes.

    Args:
        inputs: the placeholders in their new order, with their new names.
        sizes: the sizes of the inputs that vary.

    Raises:
        ExportError: a size is no arithmetic of sizes of the inputs and of the graph's values.
    """
    return _Rewriting(graph, inputs, sizes).run()


class _Rewriting:
    """One rewriting; `copies` are the nodes of the new graph."""

    def __init__(self, graph: Graph, inputs: Mapping[Node, str], sizes: InputSizes | None) -> None:
        self.old = graph
        self.inputs = inputs
        self.sizes = sizes
        self.new = Graph()
        self.copies: dict[Node, Node] = {}
        self.known: dict[Any, Node] = {}

    def run(self) -> Graph:
        """Return the new graph."""
        for node, name in self.inputs.items():
            self.copies[node] = self.new.placeholder(name)
            self.copies[node].meta = dict(node.meta)
        for node in self.old.nodes:
            if node.op != "placeholder":
                self._copy(node)
        return self.new

    def _copy(self, node: Node) -> None:
        checked = node.args[:1] if is_check(node) else ()
        given = (node.args[len(checked) :], dict(node.kwargs))
        args, kwargs = map_expressions(map_nodes(given, self.copies.__getitem__), self._settle)
        args = (*map(self._truth, checked), *args)
        copy = self.new.create_node(node.op, node.target, args, kwargs)
        copy.meta = dict(node.meta)
        self.copies[node] = copy
        if is_symbol_node(node):
            self.known[self._settled(expr_of(node.meta["val"]))] = copy

    def _settled(self, expr: Any) -> Any:
        return expr if self.sizes is None else self.sizes.argument(expr)

    def _settle(self, expr: Any) -> Argument:
        """Return the node, or the number, of an expression in any symbols."""
        return self._number(self._settled(expr))

    def _number(self, expr: Any) -> Argument:
        """Return the node, or the number, of an expression in symbols of the inputs."""
        if not isinstance(expr, sympy.Basic):
            return expr
        if isinstance(expr, sympy.Integer | sympy.Float):
            return int(expr) if isinstance(expr, sympy.Integer) else float(expr)
        if expr not in self.known:
            self.known[expr] = self._computed(expr)
        return self.known[expr]

    def _computed(self, expr: Any) -> Node:
        if isinstance(expr, sympy.Symbol):
            return self._symbol(expr)
        parts = [self._number(part) for part in expr.args]
        if isinstance(expr, ModularIndexing):
            return self._call(operator.mod, self._call(operator.floordiv, *parts[:2]), parts[2])
        if isinstance(expr, FloorDiv):
            return self._call(operator.floordiv, *parts)
        if isinstance(expr, FloatOperation):
            return self._call(PYTHON_OPERATIONS[type(expr)], *parts)
        fold = next((f for kind, f in _FOLDS.items() if isinstance(expr, kind)), None)
        if fold is None:
            raise ExportError(f"no arithmetic computes the size {expr}", code="export")
        return reduce(lambda a, b: self._call(fold, a, b), parts)  # type: ignore

    def _call(self, function: Callable[..., Any], *operands: Any) -> Node:
        return self.new.call_function(function, operands)

    def _symbol(self, symbol: sympy.Symbol) -> Node:
        """Read a size off the placeholder that has it."""
        for node in self.inputs:
            own = map(expr_of, getattr(node.meta.get("val"), "shape", ()))
            sizes = [size if self.sizes is None else self.sizes.size(size) for size in own]
            if symbol in sizes:
                return self._call(torch.ops.aten.sym_size.int, self.copies[node],
                                  sizes.index(symbol))  # fmt: skip
        raise ExportError(f"no input has the size {symbol}", code="export")

    def _truth(self, condition: Any) -> Argument:
        """Return the node that computes a condition."""
        if isinstance(condition, Comparison):
            sides = self._settle(condition.left), self._settle(condition.right)
            return self._call(RELATIONS[condition.relation], *sides)
        if isinstance(condition, Negation):
            return self._call(operator.not_, self._truth(condition.part))
        if isinstance(condition, AllOf):
            fold = operator.or_ if isinstance(condition, AnyOf) else operator.and_
            parts = [self._truth(part) for part in condition.parts]
            return reduce(lambda a, b: self._call(fold, a, b), parts)
        return bool(condition)
