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
    register_primitives,
)
from minitorch2.loopir.ops import Value, ops
from minitorch2.loopir.promotion import Operand, Promotion, category, result_type

aten = torch.ops.aten
FLOAT = Promotion.INT_TO_FLOAT
BOOL = Promotion.ALWAYS_BOOL

ON_FLOATS = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "cos", "cosh", "erf",
    "erfc", "exp", "exp2", "expm1", "lgamma", "log", "log10", "log1p", "log2", "rsqrt", "sigmoid",
    "sin", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
"""Operators that are one primitive of the same name, on floats."""

ROUNDING = ("floor", "ceil", "trunc", "round")
"""Operators that are one primitive of the same name on floats, and nothing on integers."""


def _register_rounding(name: str) -> None:
    @pointwise(getattr(aten, name).default)
    def body(dtype: torch.dtype, x: Value) -> Value:
        result: Value = getattr(ops, name)(x) if dtype.is_floating_point else x
        return result


register_primitives(ON_FLOATS, FLOAT)
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


# -- activations without a decomposition --------------------------------------------------------


@pointwise(aten.relu)
def relu(dtype: torch.dtype, x: Value) -> Value:
    """`max(x, 0)`; NaN stays."""
    return ops.maximum(x, number_value(0, dtype))


@pointwise(aten.celu)
def celu(dtype: torch.dtype, x: Value, alpha: Value) -> Value:
    """`x` where positive, else `alpha * (exp(x / alpha) - 1)`."""
    negative = ops.mul(ops.expm1(ops.truediv(x, alpha)), alpha)
    return ops.where(ops.le(x, number_value(0, dtype)), negative, x)


@pointwise(aten.hardshrink)
def hardshrink(dtype: torch.dtype, x: Value, lambd: Value) -> Value:
    """0 where `|x| <= lambda`, else `x`."""
    inside = ops.logical_and(ops.ge(x, ops.neg(lambd)), ops.le(x, lambd))
    return ops.where(inside, number_value(0, dtype), x)


@pointwise(aten.softshrink)
def softshrink(dtype: torch.dtype, x: Value, lambd: Value) -> Value:
    """`x` moved towards 0 by lambda, 0 inside; NaN stays."""
    zero = ops.mul(x, number_value(0, dtype))
    low = ops.where(ops.lt(x, ops.neg(lambd)), ops.add(x, lambd), zero)
    return ops.where(ops.gt(x, lambd), ops.sub(x, lambd), low)


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
