"""Numbers made of sizes that are no integers: ``x.shape[0] / 2``, ``math.sqrt(n)``.

SymPy would reorder and cancel them, and floating-point arithmetic does not allow that: each
operation is a function without rules, printed as the Python operation that it stands for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import sympy


class FloatOperation(sympy.Function):  # type: ignore[misc]  # SymPy has no types
    """A Python operation that gives a float; ``TEXT`` is its Python with a place per operand."""

    is_real = True
    is_integer: bool | None = None
    TEXT = ""


class TrueDivision(FloatOperation):
    """``a / b``."""

    TEXT = "({} / {})"


class ToFloat(FloatOperation):
    """``float(a)``."""

    TEXT = "float({})"


class FloatSum(FloatOperation):
    """``a + b`` where one is a float."""

    TEXT = "({} + {})"


class FloatDifference(FloatOperation):
    """``a - b`` where one is a float."""

    TEXT = "({} - {})"


class FloatProduct(FloatOperation):
    """``a * b`` where one is a float."""

    TEXT = "({} * {})"


class FloatPower(FloatOperation):
    """``a ** b`` where one is a float."""

    TEXT = "({} ** {})"


class FloatFloorDivision(FloatOperation):
    """``a // b`` where one is a float."""

    TEXT = "({} // {})"


class FloatRemainder(FloatOperation):
    """``a % b`` where one is a float."""

    TEXT = "({} % {})"


class SquareRoot(FloatOperation):
    """``math.sqrt(a)``."""

    TEXT = "math.sqrt({})"


class RoundedDown(FloatOperation):
    """``math.floor(a)`` of a float: an integer."""

    is_integer = True
    TEXT = "math.floor({})"


class RoundedUp(FloatOperation):
    """``math.ceil(a)`` of a float: an integer."""

    is_integer = True
    TEXT = "math.ceil({})"


class Truncated(FloatOperation):
    """``int(a)`` of a float."""

    is_integer = True
    TEXT = "int({})"


FLOAT_OPERATIONS: Final[dict[str, type[FloatOperation]]] = {
    "add": FloatSum,
    "sub": FloatDifference,
    "mul": FloatProduct,
    "truediv": TrueDivision,
    "int_truediv": TrueDivision,
    "float_truediv": TrueDivision,
    "floordiv": FloatFloorDivision,
    "mod": FloatRemainder,
    "pow": FloatPower,
    "float_pow": FloatPower,
}
"""The operation of each binary method of a symbolic number, when an operand is a float."""

PYTHON_OPERATIONS: Final[dict[type, Callable[..., Any]]] = {
    TrueDivision: lambda a, b: a / b,
    ToFloat: float,
    FloatSum: lambda a, b: a + b,
    FloatDifference: lambda a, b: a - b,
    FloatProduct: lambda a, b: a * b,
    FloatPower: lambda a, b: a**b,
    FloatFloorDivision: lambda a, b: a // b,
    FloatRemainder: lambda a, b: a % b,
    SquareRoot: math.sqrt,
    RoundedDown: math.floor,
    RoundedUp: math.ceil,
    Truncated: int,
}
"""What each operation computes."""


def rounded_parts(expr: Any) -> set[Any]:
    """The integers inside an expression that are computed in floating point, outermost ones."""
    if isinstance(expr, FloatOperation):
        return {expr} if expr.is_integer else set()
    if not isinstance(expr, sympy.Basic):
        return set()
    return set().union(*map(rounded_parts, expr.args))


def is_float_expression(expr: Any) -> bool:
    """Whether an expression has a part that is computed in floating point."""
    return isinstance(expr, float) or (isinstance(expr, sympy.Basic) and expr.has(FloatOperation))


def value_of(expr: Any, values: dict[sympy.Symbol, Any]) -> Any:
    """The number that an expression stands for, computed as Python would."""
    if isinstance(expr, FloatOperation):
        return PYTHON_OPERATIONS[type(expr)](*[value_of(part, values) for part in expr.args])
    if isinstance(expr, sympy.Symbol):
        return values[expr]
    if isinstance(expr, sympy.Float):
        return float(expr)
    if not isinstance(expr, sympy.Basic):
        return expr
    parts = [value_of(part, values) for part in expr.args]
    number = expr.func(*parts) if parts else expr
    return int(number) if number.is_Integer else number
