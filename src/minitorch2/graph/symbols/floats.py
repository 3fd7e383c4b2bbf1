"""Symbolic floats: arguments of the program, ``x.shape[0] / 2``, ``math.sqrt(n)``.

SymPy would reorder and cancel operations, which floating-point arithmetic does not allow. So each
operation is a SymPy function without rules, printed as the Python operation. Python computes it
once in each call, exactly as eager code does, and kernels get the result as 64 bits (`FloatBits`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

import sympy


class FloatSymbol(sympy.Symbol):  # type: ignore[misc]  # SymPy has no types
    """A float argument. It may be any float: a NaN, an infinity, a zero of either sign."""

    def __new__(cls, name: str) -> FloatSymbol:
        """Make the symbol of this name."""
        return super().__new__(cls, name, real=True)  # type: ignore[no-any-return]


class FloatOperation(sympy.Function):  # type: ignore[misc]  # SymPy has no types
    """A Python operation that gives a float; ``TEXT`` is its Python with a place per operand."""

    is_real = True
    is_integer: bool | None = None
    TEXT = ""


PYTHON_OPERATIONS: Final[dict[type, Callable[..., Any]]] = {}
"""What each operation computes."""


def _operation(name: str, text: str, function: Callable[..., Any]) -> type[FloatOperation]:
    """Return the class of an operation: its Python text, and what it computes."""
    make: Any = type(FloatOperation)  # SymPy's metaclass
    made: type[FloatOperation] = make(name, (FloatOperation,), {"TEXT": text})
    made.__module__ = __name__
    PYTHON_OPERATIONS[made] = function
    return made


TrueDivision = _operation("TrueDivision", "({} / {})", lambda a, b: a / b)
ToFloat = _operation("ToFloat", "float({})", float)
FloatSum = _operation("FloatSum", "({} + {})", lambda a, b: a + b)
FloatDifference = _operation("FloatDifference", "({} - {})", lambda a, b: a - b)
FloatProduct = _operation("FloatProduct", "({} * {})", lambda a, b: a * b)
FloatPower = _operation("FloatPower", "({} ** {})", lambda a, b: a**b)
FloatFloorDivision = _operation("FloatFloorDivision", "({} // {})", lambda a, b: a // b)
FloatRemainder = _operation("FloatRemainder", "({} % {})", lambda a, b: a % b)
FloatMaximum = _operation("FloatMaximum", "max({}, {})", max)  # the first, unless it is less
FloatMinimum = _operation("FloatMinimum", "min({}, {})", min)
AbsoluteValue = _operation("AbsoluteValue", "abs({})", abs)
SquareRoot = _operation("SquareRoot", "math.sqrt({})", math.sqrt)
Exponential = _operation("Exponential", "math.exp({})", math.exp)
Logarithm = _operation("Logarithm", "math.log({})", math.log)
BinaryLogarithm = _operation("BinaryLogarithm", "math.log2({})", math.log2)
DecimalLogarithm = _operation("DecimalLogarithm", "math.log10({})", math.log10)
Sine = _operation("Sine", "math.sin({})", math.sin)
Cosine = _operation("Cosine", "math.cos({})", math.cos)
HyperbolicTangent = _operation("HyperbolicTangent", "math.tanh({})", math.tanh)
Sign = _operation("Sign", "math.copysign(1.0, {})", lambda a: math.copysign(1.0, a))  # of zeros too


def float_bits(number: float) -> int:
    """Return the 64 bits of a float, as a signed integer.

    >>> hex(float_bits(1.0))
    '0x3ff0000000000000'
    """
    bits: int = _INTEGER.unpack(_FLOAT.pack(number))[0]
    return bits


_FLOAT: Final = Struct("=d")
_INTEGER: Final = Struct("=q")

RoundedDown = _operation("RoundedDown", "math.floor({})", math.floor)
RoundedUp = _operation("RoundedUp", "math.ceil({})", math.ceil)
Truncated = _operation("Truncated", "int({})", int)
Rounded = _operation("Rounded", "round({})", round)
IntegerRoot = _operation("IntegerRoot", "math.isqrt({})", math.isqrt)
BitLength = _operation("BitLength", "int.bit_length({})", int.bit_length)
BitCount = _operation("BitCount", "int.bit_count({})", int.bit_count)
FloatBits = _operation("FloatBits", "float_bits({})", float_bits)  # what kernels take
BITWISE: Final[dict[Callable[..., Any], type[FloatOperation]]] = {
    operator.and_: _operation("BitwiseAnd", "({} & {})", operator.and_),
    operator.or_: _operation("BitwiseOr", "({} | {})", operator.or_),
    operator.xor: _operation("BitwiseXor", "({} ^ {})", operator.xor),
    operator.lshift: _operation("LeftShift", "({} << {})", operator.lshift),
    operator.rshift: _operation("RightShift", "({} >> {})", operator.rshift),
}
"""The operation of each operator of two integers that is none of the algebra of sizes."""

for _rounded in (RoundedDown, RoundedUp, Truncated, Rounded, IntegerRoot, BitLength, BitCount,
                 FloatBits, *BITWISE.values()):  # fmt: skip
    _rounded.is_integer = True

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
    "max": FloatMaximum,
    "min": FloatMinimum,
}
"""The operation of each binary method of a symbolic number, when an operand is a float."""

TOTAL: Final = (FloatSum, FloatDifference, FloatProduct, TrueDivision, AbsoluteValue, ToFloat, Sign,
                FloatMaximum, FloatMinimum, BitLength, BitCount, BITWISE[operator.and_],
                BITWISE[operator.or_], BITWISE[operator.xor])  # fmt: skip
"""Operations that raise for no number (a divisor is known not to be 0)."""

MATH_FUNCTIONS: Final[dict[Callable[..., Any], type[FloatOperation]]] = {
    math.sqrt: SquareRoot,
    math.exp: Exponential,
    math.log: Logarithm,
    math.log2: BinaryLogarithm,
    math.log10: DecimalLogarithm,
    math.isqrt: IntegerRoot,
    int.bit_length: BitLength,
    int.bit_count: BitCount,
    math.sin: Sine,
    math.cos: Cosine,
    math.tanh: HyperbolicTangent,
    math.fabs: AbsoluteValue,
}
"""The operation of each function of one number in ``math``, when the number is symbolic."""


def operand(number: Any) -> Any:
    """Convert a number to an operand of an operation: SymPy has only one zero."""
    if type(number) is float and number == 0 and math.copysign(1, number) < 0:
        return FloatProduct(sympy.Float(0.0), sympy.Integer(-1))
    return number


def rounded_parts(expr: Any) -> set[Any]:
    """Return the outermost integers in an expression that are computed in floating point."""
    if isinstance(expr, FloatOperation):
        return {expr} if expr.is_integer else set()
    if not isinstance(expr, sympy.Basic):
        return set()
    return set().union(*map(rounded_parts, expr.args))


def is_float_expression(expr: Any) -> bool:
    """Return whether an expression has a part that is computed in floating point."""
    if not isinstance(expr, sympy.Basic):
        return isinstance(expr, float)
    return expr.is_Float or bool(expr.has(FloatOperation, FloatSymbol))


def value_of(expr: Any, values: dict[sympy.Symbol, Any]) -> Any:
    """Return the number that an expression stands for, computed as Python would."""
    if isinstance(expr, FloatOperation):
        return PYTHON_OPERATIONS[type(expr)](*[value_of(part, values) for part in expr.args])
    if isinstance(expr, sympy.Symbol):
        return values[expr]
    if not isinstance(expr, sympy.Basic):
        return expr
    if expr.is_Float or expr in _NOT_FINITE:
        return float(expr)
    parts = [value_of(part, values) for part in expr.args]
    number = expr.func(*parts) if parts else expr
    return int(number) if number.is_Integer else number


_NOT_FINITE: Final = (sympy.nan, sympy.oo, -sympy.oo)
