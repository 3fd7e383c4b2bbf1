"""Elementwise arithmetic, comparison, logic and bits.

A body sees values of the compute dtype, already promoted and broadcast; see `registry.pointwise`.
Integer and bool semantics are eager's. An integer divided by zero is an error on the CPU, where the
kernel reports it as an index out of range. On a GPU the result is undefined, as in eager.
"""

from __future__ import annotations

import sympy
import torch

from minitorch2 import config
from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.lowering.registry import (
    NoLoopForm,
    PointwiseBody,
    lowering,
    make_pointwise,
    map_elements,
    number_value,
    pointwise,
    register_primitives,
)
from minitorch2.loopir.ops import Number, Value, compute_dtype, ops
from minitorch2.loopir.promotion import Operand, Promotion, computation_type, result_type

aten = torch.ops.aten
FLOAT = Promotion.INT_TO_FLOAT
BOOL = Promotion.ALWAYS_BOOL


# -- arithmetic ---------------------------------------------------------------------------------


def add(dtype: torch.dtype, x: Value, y: Value, *, alpha: Number = 1) -> Value:
    """`x + alpha * y`; of bools, `x or y`."""
    if dtype == torch.bool:
        return ops.logical_or(x, _scaled(dtype, y, alpha))
    return ops.add(x, _scaled(dtype, y, alpha))


def sub(dtype: torch.dtype, x: Value, y: Value, *, alpha: Number = 1) -> Value:
    """`x - alpha * y`"""
    return ops.sub(x, _scaled(dtype, y, alpha))


@lowering(aten.add)
def add_scaled(x: Operand, y: Operand, alpha: Number = 1) -> TensorBox:
    """`x + alpha * y`; the overloads for numbers take alpha by position."""
    return make_pointwise(add, (x, _as_element(y, x)), alpha=alpha)


@lowering(aten.sub)
def sub_scaled(x: Operand, y: Operand, alpha: Number = 1) -> TensorBox:
    """`x - alpha * y`"""
    return make_pointwise(sub, (x, _as_element(y, x)), alpha=alpha)


def _as_element(number: Operand, x: Operand) -> Operand:
    """Round a term to the dtype of 16-bit floats, as eager adds it; factors are not rounded."""
    if not (isinstance(number, float) and isinstance(x, TensorBox)):
        return number
    if x.dtype == compute_dtype(x.dtype) or not config.current().emulate_eager:
        return number
    return float(torch.tensor(number, dtype=x.dtype).item())


def _scaled(dtype: torch.dtype, y: Value, alpha: Number | sympy.Expr) -> Value:
    if alpha == 1:
        return y
    factor = number_value(alpha, dtype)
    return ops.logical_and(y, factor) if dtype == torch.bool else ops.mul(y, factor)


@pointwise(aten.mul)
def mul(dtype: torch.dtype, x: Value, y: Value) -> Value:
    """`x * y`; of bools, `x and y`."""
    return ops.logical_and(x, y) if dtype == torch.bool else ops.mul(x, y)


def true_divide(dtype: torch.dtype, x: Value, y: Value) -> Value:
    """`x / y` of floats."""
    return ops.truediv(x, y)


@lowering(aten.div)
def div(x: Operand, y: Operand, *, rounding_mode: str | None = None) -> TensorBox:
    """Divide: exactly (integers too, in floats), or rounded to an integer of the same dtype."""
    if rounding_mode is None:
        return make_pointwise(true_divide, (x, y), FLOAT)
    return _divide(_floor_divide if rounding_mode == "floor" else trunc_divide, x, y)


def _divide(body: PointwiseBody, x: Operand, y: Operand) -> TensorBox:
    """Return a quotient or remainder that is rounded to an integer."""
    if computation_type((x, y), Promotion.DEFAULT).is_floating_point:
        return make_pointwise(body, (x, y))
    if not isinstance(y, TensorBox) and y == 0:
        raise NoLoopForm("an integer divided by zero")
    if not isinstance(y, TensorBox) or y.device.type != "cpu":
        return make_pointwise(body, (x, y))

    def checked(dtype: torch.dtype, x: Value, y: Value) -> Value:
        is_zero = ops.to_dtype(ops.eq(y, number_value(0, dtype)), torch.int64)
        ops.indirect_indexing(is_zero, sympy.Integer(1), wrap=False)
        return body(dtype, x, y)

    return make_pointwise(checked, (x, y))


def trunc_divide(dtype: torch.dtype, x: Value, y: Value) -> Value:
    """`x / y` rounded towards zero."""
    return ops.trunc(ops.truediv(x, y)) if dtype.is_floating_point else ops.truncdiv(x, y)


def _floor_divide(dtype: torch.dtype, x: Value, y: Value) -> Value:
    """`x / y` rounded towards minus infinity, consistent with `remainder` as in Python."""
    return _floor_divide_floats(dtype, x, y) if dtype.is_floating_point else ops.floordiv(x, y)


def _floor_divide_floats(dtype: torch.dtype, x: Value, y: Value) -> Value:
    """Divide through the exact remainder: `floor(x / y)` is off by one if `x / y` rounds up."""
    quotient, zero = ops.truediv(x, y), number_value(0, dtype)
    rest, is_other = _c_remainder(dtype, x, y)
    whole, one = ops.truediv(ops.sub(x, rest), y), number_value(1, dtype)
    whole = ops.where(is_other, ops.sub(whole, one), whole)
    below = ops.floor(whole)
    is_nearer = ops.gt(ops.sub(whole, below), number_value(0.5, dtype))
    nearest = ops.where(is_nearer, ops.add(below, one), below)
    signed = ops.where(ops.eq(nearest, zero), ops.copysign(zero, quotient), nearest)
    return ops.where(ops.eq(y, zero), quotient, signed)


def remainder_of_floats(dtype: torch.dtype, x: Value, y: Value) -> Value:
    """`x - y * floor(x / y)` exactly: the C remainder, moved to the sign of `y`."""
    rest, is_other = _c_remainder(dtype, x, y)
    return ops.where(is_other, ops.add(rest, y), rest)


def _c_remainder(dtype: torch.dtype, x: Value, y: Value) -> tuple[Value, Value]:
    """`fmod(x, y)`, and whether it has the other sign than `y`."""
    rest, zero = ops.fmod(x, y), number_value(0, dtype)
    signs_differ = ops.logical_xor(ops.lt(rest, zero), ops.lt(y, zero))
    return rest, ops.logical_and(ops.ne(rest, zero), signs_differ)


def _remainder(dtype: torch.dtype, x: Value, y: Value) -> Value:
    """Return the remainder with the sign of the divisor."""
    return remainder_of_floats(dtype, x, y) if dtype.is_floating_point else ops.mod(x, y)


def _fmod(dtype: torch.dtype, x: Value, y: Value) -> Value:
    """Return the remainder with the sign of the dividend."""
    return ops.fmod(x, y)


for _target, _body in (
    (aten.floor_divide, _floor_divide), (aten.remainder, _remainder), (aten.fmod, _fmod),
):  # fmt: skip
    lowering(_target)(lambda x, y, body=_body: _divide(body, x, y))


@pointwise(aten.neg)
def neg(dtype: torch.dtype, x: Value) -> Value:
    """`-x`"""
    return ops.neg(x)


@pointwise(aten.abs)
def abs_(dtype: torch.dtype, x: Value) -> Value:
    """`|x|`"""
    return x if dtype == torch.bool else ops.abs(x)


@pointwise(aten.sign, aten.sgn)
def sign(dtype: torch.dtype, x: Value) -> Value:
    """-1, 0 or 1; 0 for NaN."""
    return x if dtype == torch.bool else ops.sign(x)


@pointwise(aten.maximum, aten.clamp_min)
def maximum(dtype: torch.dtype, x: Value, y: Value) -> Value:
    """Return the larger; NaN if either is NaN."""
    return ops.maximum(x, y)


@pointwise(aten.minimum, aten.clamp_max)
def minimum(dtype: torch.dtype, x: Value, y: Value) -> Value:
    """Return the smaller; NaN if either is NaN."""
    return ops.minimum(x, y)


@pointwise(aten.fmax)
def fmax(dtype: torch.dtype, x: Value, y: Value) -> Value:
    """Return the larger; the number if the other is NaN."""
    if not dtype.is_floating_point:
        return ops.maximum(x, y)
    return ops.where(ops.isnan(y), x, ops.where(ops.isnan(x), y, ops.maximum(x, y)))


@pointwise(aten.fmin)
def fmin(dtype: torch.dtype, x: Value, y: Value) -> Value:
    """Return the smaller; the number if the other is NaN."""
    if not dtype.is_floating_point:
        return ops.minimum(x, y)
    return ops.where(ops.isnan(y), x, ops.where(ops.isnan(x), y, ops.minimum(x, y)))


@lowering(aten.clamp)
def clamp(x: TensorBox, low: Operand | None = None, high: Operand | None = None) -> TensorBox:
    """`min(max(x, low), high)`: the upper bound wins; NaN stays."""
    if high is None:
        return make_pointwise(maximum, (x, low))
    if low is None:
        return make_pointwise(minimum, (x, high))
    return make_pointwise(clamp_both, (x, low, high))


def clamp_both(dtype: torch.dtype, x: Value, low: Value, high: Value) -> Value:
    """`min(max(x, low), high)`"""
    return ops.minimum(ops.maximum(x, low), high)


@pointwise(aten.heaviside)
def heaviside(dtype: torch.dtype, x: Value, at_zero: Value) -> Value:
    """0 below zero, `at_zero` at zero, 1 above; 0 for NaN."""
    if dtype == torch.bool:
        return ops.where(x, x, at_zero)
    zero = number_value(0, dtype)
    side = ops.where(ops.gt(x, zero), number_value(1, dtype), zero)
    return ops.where(ops.eq(x, zero), at_zero, side)


# -- comparison and choice ----------------------------------------------------------------------


register_primitives(("eq", "ne", "lt", "le", "gt", "ge"), BOOL)


@lowering(aten.where.self)
def where(condition: TensorBox, x: Operand, y: Operand) -> TensorBox:
    """`x` where the condition holds, else `y`; `x` and `y` promote, the condition does not."""
    return choose(condition, x, y, result_type((x, y)))


def choose(condition: TensorBox, x: Operand, y: Operand, dtype: torch.dtype) -> TensorBox:
    """`where` in a given dtype."""

    def body(_: torch.dtype, c: Value, a: Value, b: Value) -> Value:
        return ops.where(c, a, b)

    return map_elements(body, (condition, x, y), dtype, dtype, casts=(torch.bool, dtype, dtype))


# -- logic and bits -----------------------------------------------------------------------------


def _register_logical(name: str) -> None:
    @lowering(getattr(aten, name))
    def logical(*args: Operand) -> TensorBox:
        def body(dtype: torch.dtype, *values: Value) -> Value:
            result: Value = getattr(ops, name)(*values)
            return result

        return map_elements(body, args, torch.bool, torch.bool)


for _name in ("logical_and", "logical_or", "logical_xor", "logical_not"):
    _register_logical(_name)


def _register_bitwise(name: str) -> None:
    logical = name.replace("bitwise", "logical")

    @pointwise(getattr(aten, name))
    def body(dtype: torch.dtype, *values: Value) -> Value:
        primitive = getattr(ops, logical if dtype == torch.bool else name)
        result: Value = primitive(*values)
        return result


for _name in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"):
    _register_bitwise(_name)


def _in_word(dtype: torch.dtype, shift: Value) -> Value:
    """Return whether a shift count is less than the width, so that the primitive is defined."""
    width = number_value(dtype.itemsize * 8, dtype)
    return ops.logical_and(ops.ge(shift, number_value(0, dtype)), ops.lt(shift, width))


@pointwise(aten.bitwise_left_shift, aten.__lshift__)
def left_shift(dtype: torch.dtype, x: Value, shift: Value) -> Value:
    """`x << shift`; 0 if all bits leave the word."""
    zero, inside = number_value(0, dtype), _in_word(dtype, shift)
    return ops.where(inside, ops.lshift(x, ops.where(inside, shift, zero)), zero)


@pointwise(aten.bitwise_right_shift, aten.__rshift__)
def right_shift(dtype: torch.dtype, x: Value, shift: Value) -> Value:
    """`x >> shift` with the sign bit kept; a shift out of the word leaves only the sign."""
    last = number_value(dtype.itemsize * 8 - 1, dtype)
    inside = _in_word(dtype, shift)
    shifted = ops.rshift(x, ops.where(inside, shift, last))
    if dtype == torch.uint8:
        return ops.where(inside, shifted, number_value(0, dtype))
    return shifted
