"""Elementwise functions of floats, rounding, and questions about floats."""

from __future__ import annotations

import math

import torch

from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.lowering.registry import (
    NoLoopForm,
    lowering,
    make_pointwise,
    map_elements,
    number_value,
    pointwise,
)
from minitorch2.loopir.ops import Value, ops
from minitorch2.loopir.promotion import Operand, Promotion, category, result_type

aten = torch.ops.aten
FLOAT = Promotion.INT_TO_FLOAT
BOOL = Promotion.ALWAYS_BOOL

UNARY_FLOAT = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "erfc", "exp",
    "exp2", "expm1", "lgamma", "log", "log10", "log1p", "log2", "rsqrt", "sigmoid", "sin", "sinh",
    "sqrt", "tan", "tanh",
)  # fmt: skip
"""Operators that are one primitive of the same name, on floats."""

ROUNDING = ("floor", "ceil", "trunc", "round")
"""Operators that are one primitive of the same name on floats, and nothing on integers."""


def _register_unary(name: str) -> None:
    @pointwise(getattr(aten, name), promote=FLOAT)
    def body(dtype: torch.dtype, x: Value) -> Value:
        result: Value = getattr(ops, name)(x)
        return result


def _register_rounding(name: str) -> None:
    @pointwise(getattr(aten, name).default)
    def body(dtype: torch.dtype, x: Value) -> Value:
        result: Value = getattr(ops, name)(x) if dtype.is_floating_point else x
        return result


for _name in UNARY_FLOAT:
    _register_unary(_name)
for _name in ROUNDING:
    _register_rounding(_name)


@pointwise(aten.frac)
def frac(dtype: torch.dtype, x: Value) -> Value:
    """`x - trunc(x)`"""
    return ops.sub(x, ops.trunc(x))


@pointwise(aten.reciprocal, promote=FLOAT)
def reciprocal(dtype: torch.dtype, x: Value) -> Value:
    """`1 / x`"""
    return ops.truediv(number_value(1, dtype), x)


@pointwise(aten.sinc, promote=FLOAT)
def sinc(dtype: torch.dtype, x: Value) -> Value:
    """`sin(pi x) / (pi x)`, and 1 at 0."""
    angle = ops.mul(x, number_value(math.pi, dtype))
    at_zero = ops.eq(x, number_value(0, dtype))
    return ops.where(at_zero, number_value(1, dtype), ops.truediv(ops.sin(angle), angle))


@pointwise(aten.deg2rad, promote=FLOAT)
def deg2rad(dtype: torch.dtype, x: Value) -> Value:
    """Convert degrees to radians."""
    return ops.mul(x, number_value(math.pi / 180, dtype))


@pointwise(aten.rad2deg, promote=FLOAT)
def rad2deg(dtype: torch.dtype, x: Value) -> Value:
    """Convert radians to degrees."""
    return ops.mul(x, number_value(180 / math.pi, dtype))


@pointwise(aten.atan2, promote=FLOAT)
def atan2(dtype: torch.dtype, y: Value, x: Value) -> Value:
    """Return the angle of the point (x, y)."""
    return ops.atan2(y, x)


@pointwise(aten.copysign, promote=FLOAT)
def copysign(dtype: torch.dtype, x: Value, y: Value) -> Value:
    """`|x|` with the sign of `y`."""
    return ops.copysign(x, y)


@pointwise(aten.xlogy, promote=FLOAT)
def xlogy(dtype: torch.dtype, x: Value, y: Value) -> Value:
    """`x * log(y)`, and 0 where x is 0 (but NaN where y is NaN)."""
    product = ops.mul(x, ops.log(y))
    at_zero = ops.logical_and(ops.eq(x, number_value(0, dtype)), ops.logical_not(ops.isnan(y)))
    return ops.where(at_zero, number_value(0, dtype), product)


@pointwise(aten.logaddexp, promote=FLOAT)
def logaddexp(dtype: torch.dtype, x: Value, y: Value) -> Value:
    """`log(exp(x) + exp(y))` without overflow."""
    larger = ops.maximum(x, y)
    both_infinite = ops.logical_and(ops.isinf(x), ops.eq(x, y))
    rest = ops.log1p(ops.exp(ops.neg(ops.abs(ops.sub(x, y)))))
    return ops.where(both_infinite, x, ops.add(larger, rest))


# -- powers -------------------------------------------------------------------------------------

SPECIAL_POWERS = {
    0.5: lambda dtype, x: ops.sqrt(x),
    -0.5: lambda dtype, x: ops.rsqrt(x),
    -1.0: reciprocal,
    -2.0: lambda dtype, x: reciprocal(dtype, ops.mul(x, x)),
}
"""Exponents that have a primitive of their own, of floats."""

MAX_UNROLLED_POWER = 8


def _power(x: Value, exponent: int) -> Value:
    """`x ** exponent` for a small positive exponent, by repeated squaring."""
    if exponent == 1:
        return x
    half = _power(x, exponent // 2)
    square = ops.mul(half, half)
    return ops.mul(square, x) if exponent % 2 else square


@lowering(aten.pow)
def pow_(x: Operand, exponent: Operand) -> TensorBox:
    """`x ** exponent`; small constant exponents become products, as eager does for 2 and 3."""
    dtype = result_type((x, exponent))
    if isinstance(x, TensorBox) and isinstance(exponent, (int, float)):
        if exponent == int(exponent if math.isfinite(exponent) else 0.5) and (
            1 <= exponent <= (MAX_UNROLLED_POWER if category(dtype) == 1 else 3)
        ):
            whole = int(exponent)
            return map_elements(lambda _, v: _power(v, whole), (x,), dtype, dtype)
        if dtype.is_floating_point and float(exponent) in SPECIAL_POWERS:
            return map_elements(SPECIAL_POWERS[float(exponent)], (x,), dtype, dtype)
    if not dtype.is_floating_point:
        raise NoLoopForm("a power of integers")
    return make_pointwise(lambda _, a, b: ops.pow(a, b), (x, exponent))


# -- questions ----------------------------------------------------------------------------------


@pointwise(aten.isnan, promote=BOOL)
def isnan(dtype: torch.dtype, x: Value) -> Value:
    """Return whether x is NaN; an integer never is."""
    return ops.isnan(x) if dtype.is_floating_point else ops.constant(False, torch.bool)


@pointwise(aten.isinf, promote=BOOL)
def isinf(dtype: torch.dtype, x: Value) -> Value:
    """Return whether x is infinite; an integer never is."""
    return ops.isinf(x) if dtype.is_floating_point else ops.constant(False, torch.bool)


@pointwise(aten.isfinite, promote=BOOL)
def isfinite(dtype: torch.dtype, x: Value) -> Value:
    """Return whether x is a number."""
    if not dtype.is_floating_point:
        return ops.constant(True, torch.bool)
    return ops.logical_not(ops.logical_or(ops.isnan(x), ops.isinf(x)))


@pointwise(aten.isposinf, promote=BOOL)
def isposinf(dtype: torch.dtype, x: Value) -> Value:
    """Return whether x is plus infinity."""
    return _equals_infinity(dtype, x, math.inf)


@pointwise(aten.isneginf, promote=BOOL)
def isneginf(dtype: torch.dtype, x: Value) -> Value:
    """Return whether x is minus infinity."""
    return _equals_infinity(dtype, x, -math.inf)


def _equals_infinity(dtype: torch.dtype, x: Value, infinity: float) -> Value:
    if not dtype.is_floating_point:
        return ops.constant(False, torch.bool)
    return ops.eq(x, ops.constant(infinity, dtype))


@pointwise(aten.signbit, promote=BOOL)
def signbit(dtype: torch.dtype, x: Value) -> Value:
    """Return whether x is negative; true for -0.0."""
    if dtype == torch.bool:
        return ops.constant(False, torch.bool)
    return ops.signbit(x) if dtype.is_floating_point else ops.lt(x, number_value(0, dtype))


@lowering(aten.nan_to_num)
def nan_to_num(
    x: TensorBox,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> TensorBox:
    """Replace NaN and the infinities, by default with 0 and the extreme finite numbers."""
    if not x.dtype.is_floating_point:
        return x.copy()
    limits = torch.finfo(x.dtype)
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf

    def body(dtype: torch.dtype, v: Value) -> Value:
        zero = ops.constant(0.0 if nan is None else float(nan), dtype)
        v = ops.where(ops.eq(v, ops.constant(math.inf, dtype)), ops.constant(high, dtype), v)
        v = ops.where(ops.eq(v, ops.constant(-math.inf, dtype)), ops.constant(low, dtype), v)
        return ops.where(ops.isnan(v), zero, v)

    return map_elements(body, (x,), x.dtype, x.dtype)


@lowering(aten.logit)
def logit(x: TensorBox, eps: float | None = None) -> TensorBox:
    """`log(x / (1 - x))`, x clamped to [eps, 1 - eps] first if eps is given."""

    def body(dtype: torch.dtype, v: Value) -> Value:
        one = ops.constant(1.0, dtype)
        if eps is not None:
            v = ops.maximum(v, ops.constant(eps, dtype))
            v = ops.minimum(v, ops.constant(1.0 - eps, dtype))
        return ops.log(ops.truediv(v, ops.sub(one, v)))

    return make_pointwise(body, (x,), FLOAT)
