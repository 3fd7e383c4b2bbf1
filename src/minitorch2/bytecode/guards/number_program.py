"""Conditions on sizes and numbers as instructions of the guard machine.

    x.shape[0] + n <= 8   -->   SIZE x; INT n; ADD; NUMBER 8; LESS (8 < sum); AGREE with 0

A size is read where the tensor keeps it, so no Python object is made of it. Sums, products,
quotients, extremes and comparisons are integers of 64 bits; a condition that computes in floating
point, or with greater numbers, is left to Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import Any, Final

import sympy

from minitorch2.bytecode.guards.shapes import ShapeCondition
from minitorch2.bytecode.guards.sources import AttributeSource, ItemSource, Source, StrideSource
from minitorch2.graph.symbols.conditions import AllOf, AnyOf, Comparison, Condition, Negation
from minitorch2.graph.symbols.division import FloorDiv, ModularIndexing
from minitorch2.graph.symbols.floats import FloatSymbol, float_bits
from minitorch2.native.cpython.guard_machine import Op, ProgramWriter
from minitorch2.native.torch_internals.tensor_layout import tensor_layout

_WORD: Final = 8
_LARGEST: Final = 2**62
_FUNCTIONS: Final = (sympy.Add, sympy.Mul, sympy.Max, sympy.Min, FloorDiv, ModularIndexing)


class NumberWriter:
    """Writes conditions into a program; each number is computed once.

    Args:
        program: the program to write to.
        value: the place of the value that a source loads.
        is_tensor: whether a source is known to load a tensor with the known layout of fields.
    """

    def __init__(
        self,
        program: ProgramWriter,
        value: Callable[[Source], int],
        is_tensor: Callable[[Source], bool],
    ) -> None:
        self._program = program
        self._value = value
        self._is_tensor = is_tensor
        self._known: dict[Any, int] = {}

    def write(self, guard: ShapeCondition) -> bool:
        """Write a guard's condition as checks; return whether the machine can compute it."""
        if not can_compute(guard.condition):
            return False
        self._check(guard.condition, dict(guard.symbols))
        return True

    def _check(self, condition: Condition, sources: Mapping[sympy.Symbol, Source]) -> None:
        if isinstance(condition, AllOf) and not isinstance(condition, AnyOf):
            for part in condition.parts:
                self._check(part, sources)
        else:
            number, wanted = self._truth(condition, sources)
            self._program.check(Op.AGREE, number, wanted)

    # Conditions ----------------------------------------------------------------------------------

    def _truth(
        self, condition: Condition, sources: Mapping[sympy.Symbol, Source]
    ) -> tuple[int, int]:
        """Return the place of a number, and its value if the condition holds."""
        if isinstance(condition, Negation):
            number, wanted = self._truth(condition.part, sources)
            return number, 1 - wanted
        if isinstance(condition, AllOf):
            combine = Op.MAX if isinstance(condition, AnyOf) else Op.MUL
            parts = [self._bit(part, sources) for part in condition.parts]
            return reduce(lambda a, b: self._number(combine, a, b), parts), 1
        assert isinstance(condition, Comparison)
        left = self._expression(condition.left, sources, condition.is_of_floats)
        right = self._expression(condition.right, sources, condition.is_of_floats)
        compare = self._compare_floats if condition.is_of_floats else self._compare
        return compare(condition.relation, left, right)

    def _bit(self, condition: Condition, sources: Mapping[sympy.Symbol, Source]) -> int:
        """Return the place of a number that is 1 if the condition holds, and else 0."""
        if isinstance(condition, bool):
            return self._constant(int(condition))
        number, wanted = self._truth(condition, sources)
        return self._number(Op.ALIKE, number, self._constant(wanted))

    def _compare(self, relation: str, left: int, right: int) -> tuple[int, int]:
        if relation in ("==", "!="):
            return self._number(Op.ALIKE, left, right), int(relation == "==")
        if relation in (">", "<="):
            left, right = right, left
        return self._number(Op.LESS, left, right), int(relation in ("<", ">"))

    def _compare_floats(self, relation: str, left: int, right: int) -> tuple[int, int]:
        if relation.startswith(">"):
            left, right = right, left
        less = Op.FLOAT_ALIKE if relation in ("==", "!=") else Op.FLOAT_LESS
        number = self._number(less, left, right)
        if relation in ("<=", ">="):
            number = self._number(Op.MAX, number, self._number(Op.FLOAT_ALIKE, left, right))
        return number, int(relation != "!=")

    # Expressions ---------------------------------------------------------------------------------

    def _expression(
        self, expr: Any, sources: Mapping[sympy.Symbol, Source], is_float: bool = False
    ) -> int:
        if not isinstance(expr, sympy.Basic) or expr.is_number:
            return self._constant(float_bits(float(expr)) if is_float else int(expr))
        if isinstance(expr, sympy.Symbol):
            return self._loaded(sources[expr], isinstance(expr, FloatSymbol))
        if isinstance(expr, sympy.Pow):
            parts = [self._expression(expr.base, sources)] * int(expr.exp)
        else:
            parts = [self._expression(part, sources) for part in expr.args]
        return self._combined(expr, parts)

    def _combined(self, expr: sympy.Expr, parts: list[int]) -> int:
        if isinstance(expr, FloorDiv):
            return self._number(Op.DIV, *parts)
        if isinstance(expr, ModularIndexing):
            return self._number(Op.MOD, self._number(Op.DIV, *parts[:2]), parts[2])
        if isinstance(expr, sympy.Min):  # min(a, b) is -max(-a, -b)
            return self._negated(reduce(partial(self._number, Op.MAX), map(self._negated, parts)))
        op = {sympy.Add: Op.ADD, sympy.Max: Op.MAX}.get(type(expr), Op.MUL)
        return reduce(lambda a, b: self._number(op, a, b), parts)

    def _negated(self, a: int) -> int:
        return self._number(Op.MUL, a, self._constant(-1))

    def _constant(self, number: int) -> int:
        return self._number(Op.NUMBER, 0, number)

    def _number(self, op: Op, a: int, b: int = 0) -> int:
        key = (op, a, b)
        if key not in self._known:
            self._known[key] = self._program.number(op, a, b)
        return self._known[key]

    def _loaded(self, source: Source, is_float: bool) -> int:
        place = _place_in_tensor(source)
        if place is not None and self._is_tensor(place[0]):
            return self._number(Op.SIZE, self._value(place[0]), place[1])
        return self._number(Op.FLOAT if is_float else Op.INT, self._value(source))


def _place_in_tensor(source: Source) -> tuple[Source, int] | None:
    """Return the tensor whose size or stride a source loads, and its offset in the tensor."""
    layout = tensor_layout()
    if layout is None:
        return None
    match source:
        case ItemSource(AttributeSource(tensor, "shape"), int(dim)):
            start = layout.sizes
        case StrideSource(tensor, dim):
            start = layout.strides
        case _:
            return None
    return tensor, (layout.tensor << 32) + start + _WORD * dim


def can_compute(condition: Condition) -> bool:
    """Return whether the machine has instructions for a condition."""
    if isinstance(condition, Negation):
        return can_compute(condition.part)
    if isinstance(condition, AllOf):
        return all(map(can_compute, condition.parts))
    if isinstance(condition, bool):
        return False  # a guard that never holds, or always: nothing to compute
    of_kind = _is_float if condition.is_of_floats else _is_integer
    return of_kind(condition.left) and of_kind(condition.right)


def _is_float(expr: Any) -> bool:
    if isinstance(expr, FloatSymbol):
        return True
    return not isinstance(expr, sympy.Basic) or expr.is_Float or expr.is_Integer


def _is_integer(expr: Any) -> bool:
    if isinstance(expr, int) or expr.is_Integer:
        return abs(int(expr)) < _LARGEST
    if isinstance(expr, sympy.Symbol):
        return True
    if isinstance(expr, sympy.Pow):
        return _is_integer(expr.base) and expr.exp.is_Integer and 1 <= expr.exp <= 8
    return isinstance(expr, _FUNCTIONS) and all(map(_is_integer, expr.args))
