"""Sizes in a trace: symbols for Python, `aten::size` and arithmetic of integers for the graph.

A size is a symbol whose hint is the size of the data. Nothing is assumed of it, not even that it is
neither 0 nor 1. Only a condition that Python asks for becomes a guard.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial, reduce
from typing import Any, Final

import sympy
import torch

from minitorch2.errors import UnsupportedError
from minitorch2.graph.symbols.conditions import (
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    Negation,
    is_condition,
)
from minitorch2.graph.symbols.floats import (
    Exponential,
    FloatDifference,
    FloatFloorDivision,
    FloatPower,
    FloatProduct,
    FloatRemainder,
    FloatSum,
    Logarithm,
    RoundedDown,
    RoundedUp,
    SquareRoot,
    ToFloat,
    TrueDivision,
    Truncated,
)
from minitorch2.graph.symbols.ranges import Range
from minitorch2.graph.symbols.shape_env import ShapeEnv
from minitorch2.graph.symbols.text import print_condition
from minitorch2.graph.user_lines import user_line
from minitorch2.script.ir.graph import Value
from minitorch2.script.ir.types import BOOL, FLOAT, INT, NUMBER, ListType, TensorType, Type
from minitorch2.script.tracing.graph_writer import SYMBOLIC, GraphWriter
from minitorch2.script.tracing.traced_tensor import TracedTensor

NATURAL: Final = Range(0, math.inf)
OPERATIONS: Final[dict[Any, str]] = {
    "Add": "aten::add",
    "Mul": "aten::mul",
    "Max": "prim::max",
    "Min": "prim::min",
    "FloorDiv": "aten::floordiv",
    TrueDivision: "aten::div",
    ToFloat: "aten::Float",
    FloatSum: "aten::add",
    FloatDifference: "aten::sub",
    FloatProduct: "aten::mul",
    FloatPower: "aten::pow",
    FloatFloorDivision: "aten::floordiv",
    FloatRemainder: "aten::remainder",
    SquareRoot: "aten::sqrt",
    Exponential: "aten::exp",
    Logarithm: "aten::log",
    RoundedDown: "aten::floor",
    RoundedUp: "aten::ceil",
    Truncated: "aten::Int",
}
"""The operator of the script language for each operation of size expressions."""
RELATIONS: Final = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">=": "ge", ">": "gt"}


class Sizes:
    """The symbols of a trace and the values that stand for them in the graph."""

    def __init__(self, writer: GraphWriter) -> None:
        self.writer = writer
        self.env = ShapeEnv(duck_shapes=False)
        self.env.locate = user_line
        self.at_entry: dict[Any, Value] = {}
        self._values: dict[Any, Value] = {}
        self._symbols: dict[tuple[int, str, int], tuple[TracedTensor, Any]] = {}
        self._origins: dict[sympy.Symbol, tuple[TracedTensor, str, int]] = {}
        self._names: dict[sympy.Symbol, str] = {}
        self._guards_taken = 0

    # Symbols ---------------------------------------------------------------------------------

    def of(self, tensor: TracedTensor, kind: str) -> list[Any]:
        """Return the sizes (``kind`` is "size") or the strides ("stride") as symbolic integers."""
        numbers = getattr(tensor.data_now, kind)()
        return [self._symbol(tensor, kind, d, number) for d, number in enumerate(numbers)]

    def _symbol(self, tensor: TracedTensor, kind: str, dimension: int, hint: int) -> Any:
        key = id(tensor), kind, dimension
        if key not in self._symbols:
            symbolic = self.env.input_number(key, hint)
            symbol = symbolic.node.expr
            self.env.knowledge.bound(symbol, NATURAL)
            self._origins[symbol] = tensor, kind, dimension
            name = tensor.source or f"the result of {tensor.value.node.kind}"
            read = f"shape[{dimension}]" if kind == "size" else f"stride({dimension})"
            self._names[symbol] = f"{name}.{read}"
            self._symbols[key] = tensor, symbolic
        return self._symbols[key][1]

    def settle(self, tensor: TracedTensor) -> None:
        """Read sizes of a tensor that is about to change them; forget their symbols."""
        for key in [key for key in self._symbols if key[0] == id(tensor)]:
            self.value(self._symbols.pop(key)[1].node.expr)

    # Values ----------------------------------------------------------------------------------

    def value(self, expr: Any) -> Value:
        """Return the value of the graph that is a number, a size expression or a condition."""
        if not isinstance(expr, sympy.Basic) and not is_condition(expr):
            return self.writer.constant(expr)
        if expr in self.at_entry:
            return self.at_entry[expr]
        known = self.at_entry if self.is_known_at_entry(expr) else self._values
        if expr not in known:
            known[expr] = self._make(expr)
        return known[expr]

    def is_known_at_entry(self, expr: Any) -> bool:
        """Return whether inputs of the graph, as they come, determine an expression."""
        symbols = expr.symbols if is_condition(expr) else getattr(expr, "free_symbols", ())
        return all(map(self._is_of_input, symbols))

    def _is_of_input(self, symbol: sympy.Symbol) -> bool:
        if symbol in self.at_entry:
            return True
        if symbol in self._origins:
            tensor = self._origins[symbol][0]
            return self.writer.is_input(tensor) and id(tensor) not in self.writer.changed
        return self.is_known_at_entry(self.env.knowledge.multiples[symbol])

    def _make(self, expr: Any) -> Value:
        with self.writer.inserting(at_entry=self.is_known_at_entry(expr)):
            if is_condition(expr):
                return self._condition(expr)
            if isinstance(expr, sympy.Symbol):
                return self._read(expr)
            if not expr.args:
                number = int(expr) if expr.is_Integer else float(expr)
                return self.writer.constant(number)
            return self._operation(expr)

    def _read(self, symbol: sympy.Symbol) -> Value:
        if symbol not in self._origins:
            return self.value(self.env.knowledge.multiples[symbol])
        tensor, kind, dimension = self._origins[symbol]
        value = self.writer.value_of_tensor(tensor)
        return self.writer.emit(f"aten::{kind}", value, self.writer.constant(dimension))

    def _operation(self, expr: Any) -> Value:
        emit, name = self.writer.emit, type(expr).__name__
        if name == "ModularIndexing":
            a, d, m = expr.args
            quotient = (
                self.value(a) if d == 1 else emit("aten::floordiv", self.value(a), self.value(d))
            )
            return emit("aten::remainder", quotient, self.value(m))
        if name == "Pow":
            return self._chain("aten::mul", [self.value(expr.args[0])] * int(expr.args[1]), INT)
        kind = OPERATIONS.get(type(expr)) or OPERATIONS.get(name)
        if kind is None:
            raise UnsupportedError(f"{expr} has no operator in a graph", code="trace-number")
        number = INT if expr.is_integer else FLOAT
        return self._chain(kind, [self.value(part) for part in expr.args], number)

    def _chain(self, kind: str, values: list[Value], type: Type) -> Value:
        """Apply an operator to one value, or to several from left to right."""
        emit = self.writer.emit
        if len(values) == 1:
            return emit(kind, values[0], type=type)
        return reduce(lambda a, b: emit(kind, a, b, type=type), values)

    def _condition(self, condition: Condition) -> Value:
        if isinstance(condition, Comparison):
            parts: tuple[Any, ...] = condition.left, condition.right
            kind = f"aten::{RELATIONS[condition.relation]}"
        elif isinstance(condition, Negation):
            parts, kind = (condition.part,), "aten::__not__"
        else:
            assert isinstance(condition, AllOf)
            kind = "aten::__or__" if isinstance(condition, AnyOf) else "aten::__and__"
            parts = condition.parts
        return self._chain(kind, [self.value(part) for part in parts], BOOL)

    # Guards ----------------------------------------------------------------------------------

    def check_guards(self) -> None:
        """Put the conditions that Python has asked for since the last call into the graph."""
        guards = self.env.guards[self._guards_taken :]
        self._guards_taken = len(self.env.guards)
        for guard in guards:
            at_entry = self.is_known_at_entry(guard.condition)
            self.writer.check(
                partial(self.value, guard.condition),
                print_condition(guard.condition, self._names),
                self.writer.places.of_line(guard.line),
                at_entry=at_entry,
            )

    def number(self, symbolic: torch.SymInt | torch.SymFloat | torch.SymBool) -> Any:
        """Return the number that a symbolic one is in this trace."""
        node = symbolic.node
        return node.bool_() if isinstance(symbolic, torch.SymBool) else node.hint


class SymbolicWriter(GraphWriter):
    """Puts sizes, and lists of tensors and sizes, into a graph as well.

    Attributes:
        sizes: the symbols that Python has for sizes.
    """

    def __init__(self, *, checks: bool) -> None:
        super().__init__(checks=checks)
        self.sizes = Sizes(self)

    def end(self) -> None:
        """Complete the graph, with checks of the last questions about sizes."""
        self.sizes.check_guards()
        super().end()

    def value_of(self, given: Any, type: Type | None = None) -> Value:
        """Return the value that stands for an argument, or for a part of a result."""
        if isinstance(given, torch.Tensor):
            return self.value_of_tensor(given)
        if isinstance(given, SYMBOLIC):
            return self.sizes.value(given.node.expr)
        if isinstance(given, list | tuple):
            return self._list(given, type)
        value = self.constant(given)
        if value.type == BOOL and (type == NUMBER or isinstance(type, TensorType)):
            # Schemas have no bool where they take a number; `x * True` keeps the dtype of x.
            return self.emit("prim::unchecked_cast", value, type=NUMBER)
        return value

    def _list(self, given: Sequence[Any], type: Type | None) -> Value:
        element = getattr(getattr(type, "element", type), "element", getattr(type, "element", None))
        values = [self.value_of(item) for item in given]
        if element is None or not isinstance(element, Type):
            element = values[0].type
        node = self.graph.create("prim::ListConstruct", values, [ListType(element)])
        return self.graph.insert(node).output
