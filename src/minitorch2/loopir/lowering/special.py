"""Special functions and less common elementwise operators."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.lowering.registry import (
    NoLoopForm,
    lowering,
    map_elements,
    number_value,
    pointwise,
    rounding_of_steps,
)
from minitorch2.loopir.ops import Number, Value, ops
from minitorch2.loopir.promotion import Promotion

aten = torch.ops.aten
FLOAT = Promotion.INT_TO_FLOAT


def polynomial(dtype: torch.dtype, x: Value, coefficients: Sequence[float]) -> Value:
    """`c[0] + c[1] * x + c[2] * x**2 + ...` by Horner's rule."""
    *rest, result = [number_value(c, dtype) for c in coefficients]
    for coefficient in reversed(rest):
        result = ops.add(ops.mul(result, x), coefficient)
    return result


@pointwise(aten.logaddexp2, promote=FLOAT)
def logaddexp2(dtype: torch.dtype, x: Value, y: Value) -> Value:
    """`log2(2**x + 2**y)` without overflow."""
    power = ops.exp2(ops.neg(ops.abs(ops.sub(x, y))))
    rest = ops.mul(ops.log1p(power), number_value(1 / math.log(2), dtype))
    both_infinite = ops.logical_and(ops.isinf(x), ops.eq(x, y))
    return ops.where(both_infinite, x, ops.add(ops.maximum(x, y), rest))


@pointwise(aten.hypot)
def hypot(dtype: torch.dtype, x: Value, y: Value) -> Value:
    """`sqrt(x**2 + y**2)` without overflow."""
    x, y, zero = ops.abs(x), ops.abs(y), number_value(0, dtype)
    large, small = ops.maximum(x, y), ops.minimum(x, y)
    ratio = ops.where(ops.eq(large, zero), zero, ops.truediv(small, large))
    length = ops.mul(large, ops.sqrt(ops.add(number_value(1, dtype), ops.mul(ratio, ratio))))
    infinite = ops.logical_or(ops.isinf(x), ops.isinf(y))
    return ops.where(infinite, number_value(math.inf, dtype), length)


@pointwise(aten.ldexp, promote=FLOAT)
def ldexp(dtype: torch.dtype, x: Value, exponent: Value) -> Value:
    """`x * 2**exponent`"""
    return ops.mul(x, ops.exp2(exponent))


@pointwise(aten.angle, promote=FLOAT)
def angle(dtype: torch.dtype, x: Value) -> Value:
    """0 of positive numbers, pi of negative ones, NaN of NaN."""
    side = ops.where(
        ops.lt(x, number_value(0, dtype)), number_value(math.pi, dtype), number_value(0, dtype)
    )
    return ops.where(ops.isnan(x), x, side)


@lowering(aten.round.decimals)
def round_decimals(x: TensorBox, *, decimals: int) -> TensorBox:
    """Round half to even at a decimal place; integers stay."""
    if not x.dtype.is_floating_point:
        raise NoLoopForm("decimal places of integers")
    scale = 10.0 ** abs(decimals)

    def body(dtype: torch.dtype, v: Value) -> Value:
        factor = number_value(scale, dtype)
        if decimals >= 0:
            return ops.truediv(ops.round(ops.mul(v, factor)), factor)
        return ops.mul(ops.round(ops.truediv(v, factor)), factor)

    return map_elements(body, (x,), x.dtype, x.dtype)


@pointwise(aten.special_entr, promote=FLOAT)
def entr(dtype: torch.dtype, x: Value) -> Value:
    """`-x * log(x)`; 0 at 0, minus infinity below, NaN of NaN."""
    zero = number_value(0, dtype)
    inside = ops.where(ops.gt(x, zero), ops.neg(ops.mul(x, ops.log(x))), zero)
    outside = ops.where(ops.lt(x, zero), number_value(-math.inf, dtype), inside)
    return ops.where(ops.isnan(x), x, outside)


@pointwise(aten.special_xlog1py, promote=FLOAT)
def xlog1py(dtype: torch.dtype, x: Value, y: Value) -> Value:
    """`x * log(1 + y)`, and 0 where x is 0 (but NaN where y is NaN)."""
    at_zero = ops.logical_and(ops.eq(x, number_value(0, dtype)), ops.logical_not(ops.isnan(y)))
    return ops.where(at_zero, number_value(0, dtype), ops.mul(x, ops.log1p(y)))


CENTRAL = ((0.886226899, -1.645349621, 0.914624893, -0.140543331),
           (1.0, -2.118377725, 1.442710462, -0.329097515, 0.012229801))  # fmt: skip
TAIL = ((-1.970840454, -1.624906493, 3.429567803, 1.641345311), (1.0, 3.543889200, 1.637067800))
"""Numerators and denominators of rational approximations of erfinv, for |y| up to 0.7 and above."""


NEAR = (1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06,
        -3.5233877e-06, 3.43273939e-07, 2.81022636e-08)  # fmt: skip
FAR = (2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844,
       0.00134934322, 0.000100950558, -0.000200214257)  # fmt: skip
"""Polynomials for `erfinv(y) / y` in float32, of `-log(1 - y * y)`: M. Giles, "Approximating the
erfinv function", 2012."""


@pointwise(aten.erfinv, promote=FLOAT)
def erfinv(dtype: torch.dtype, y: Value) -> Value:
    """Return the x with `erf(x) = y`."""
    size, one = ops.abs(y), number_value(1, dtype)
    x = _erfinv_inside(dtype, y) if dtype == torch.float32 else _erfinv_by_newton(dtype, y)
    x = ops.where(ops.eq(size, one), ops.copysign(number_value(math.inf, dtype), y), x)
    return ops.where(ops.gt(size, one), number_value(math.nan, dtype), x)


def _erfinv_inside(dtype: torch.dtype, y: Value) -> Value:
    """Compute by two polynomials and the `log` of a product that does not cancel near 1."""
    one = number_value(1, dtype)
    w = ops.neg(ops.log(ops.mul(ops.sub(one, y), ops.add(one, y))))
    near = polynomial(dtype, ops.sub(w, number_value(2.5, dtype)), NEAR)
    far = polynomial(dtype, ops.sub(ops.sqrt(w), number_value(3, dtype)), FAR)
    return ops.mul(ops.where(ops.lt(w, number_value(5, dtype)), near, far), y)


def _erfinv_by_newton(dtype: torch.dtype, y: Value) -> Value:
    """Compute by a rational approximation and two steps of Newton."""
    size, one = ops.abs(y), number_value(1, dtype)
    square = ops.mul(y, y)
    central = ops.mul(y, _ratio(dtype, square, CENTRAL))
    half = ops.truediv(ops.sub(one, size), number_value(2, dtype))
    tail = _ratio(dtype, ops.sqrt(ops.neg(ops.log(half))), TAIL)
    x = ops.where(ops.le(size, number_value(0.7, dtype)), central, ops.copysign(tail, y))
    for _ in range(2):
        slope = ops.mul(
            number_value(2 / math.sqrt(math.pi), dtype), ops.exp(ops.neg(ops.mul(x, x)))
        )
        x = ops.sub(x, ops.truediv(ops.sub(ops.erf(x), y), slope))
    return x


def _ratio(
    dtype: torch.dtype, x: Value, coefficients: tuple[Sequence[float], Sequence[float]]
) -> Value:
    top, bottom = coefficients
    return ops.truediv(polynomial(dtype, x, top), polynomial(dtype, x, bottom))


DIGAMMA = tuple(b / (2 * n) for n, b in enumerate(
    (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6), start=1))  # fmt: skip
"""Bernoulli numbers `B(2n) / 2n`: the asymptotic series of digamma."""
_SERIES_FROM = 10


@pointwise(aten.digamma, promote=FLOAT)
def digamma(dtype: torch.dtype, x: Value) -> Value:
    """Return the derivative of lgamma by reflection below 0, recurrence to 10, then its series."""
    zero, one = number_value(0, dtype), number_value(1, dtype)
    negative = ops.lt(x, zero)
    whole = ops.logical_and(negative, ops.eq(x, ops.trunc(x)))
    part = ops.mul(number_value(math.pi, dtype), ops.sub(x, ops.round(x)))
    reflected = ops.truediv(number_value(math.pi, dtype), ops.tan(part))
    at = ops.where(negative, ops.sub(one, x), x)
    total = ops.where(negative, ops.neg(reflected), zero)
    for _ in range(_SERIES_FROM):
        below = ops.lt(at, number_value(_SERIES_FROM, dtype))
        total = ops.where(below, ops.sub(total, ops.truediv(one, at)), total)
        at = ops.where(below, ops.add(at, one), at)
    inverse = ops.truediv(one, ops.mul(at, at))
    series = ops.mul(inverse, polynomial(dtype, inverse, DIGAMMA))
    value = ops.sub(ops.log(at), ops.truediv(number_value(0.5, dtype), at))
    value = ops.add(total, ops.sub(value, series))
    pole = ops.copysign(number_value(math.inf, dtype), ops.neg(x))
    value = ops.where(ops.eq(x, zero), pole, value)
    return ops.where(whole, number_value(math.nan, dtype), value)


# -- backward -----------------------------------------------------------------------------------
# At NaN, eager's vectorized loops and its loops over the last few elements differ: these are the
# former.


@pointwise(aten.softshrink_backward, aten.hardshrink_backward)
def zero_inside(dtype: torch.dtype, grad: Value, x: Value, limit: Value) -> Value:
    """0 where `|x| <= lambda`, else `grad`."""
    outside = ops.logical_or(ops.lt(x, ops.neg(limit)), ops.gt(x, limit))
    return ops.where(outside, grad, number_value(0, dtype))


@lowering(aten.logit_backward)
def logit_backward(grad: TensorBox, x: TensorBox, eps: Number | None = None) -> TensorBox:
    """`grad / (x * (1 - x))` inside of [eps, 1 - eps]; outside 0, or NaN without eps."""
    low = 0.0 if eps is None else float(eps)
    outer = math.nan if eps is None else 0.0
    step = rounding_of_steps(x)

    def body(dtype: torch.dtype, g: Value, v: Value) -> Value:
        one = number_value(1, dtype)
        slope = ops.truediv(g, step(ops.mul(v, step(ops.sub(one, v)))))
        inside = ops.logical_and(
            ops.ge(v, step(number_value(low, dtype))), ops.le(v, step(number_value(1 - low, dtype)))
        )
        return ops.where(inside, slope, number_value(outer, dtype))

    return map_elements(body, (grad, x), x.dtype, x.dtype)
