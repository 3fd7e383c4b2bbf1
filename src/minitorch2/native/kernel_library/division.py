"""Division of integers without a division instruction: vectors have one for floats only.

The quotient of numbers of up to 32 bits is exact if it is rounded to a float of at least as many
digits and then truncated. The quotient of int64 numbers is only near; its remainder is divided once
more, and is then too large by at most one divisor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import llvmlite.binding as llvm
from llvmlite import ir
from numba.extending import intrinsic

Builder = Any
_LARGEST = 9223372036854774784.0
"""The greatest float64 below 2**63."""


class Divided(NamedTuple):
    """A quotient and its remainder, rounded towards zero."""

    quotient: ir.Value
    rest: ir.Value


def _truncated(builder: Builder, x: ir.Value, y: ir.Value, signed: bool) -> Divided:
    """`x / y` for a `y` that is neither 0 nor -1."""
    is_wide = x.type.width == 64
    # Only such processors convert vectors of int64 to float64 and back.
    converts = signed and llvm.get_host_cpu_features().get("avx512dq")
    if isinstance(y, ir.Constant) or (is_wide and not converts):
        quotient = (builder.sdiv if signed else builder.udiv)(x, y)
        return Divided(quotient, builder.sub(x, builder.mul(quotient, y)))
    quotient = _near_quotient(builder, x, y, signed)
    rest = builder.sub(x, builder.mul(quotient, y))
    if not is_wide:
        return Divided(quotient, rest)
    further = _near_quotient(builder, rest, y, signed)
    rest = builder.sub(rest, builder.mul(further, y))
    return _from_zero(builder, x, y, Divided(builder.add(quotient, further), rest))


def _near_quotient(builder: Builder, x: ir.Value, y: ir.Value, signed: bool) -> ir.Value:
    real = ir.FloatType() if x.type.width <= 16 else ir.DoubleType()
    to_float, to_integer = (
        (builder.sitofp, builder.fptosi) if signed else (builder.uitofp, builder.fptoui)
    )
    ratio = builder.fdiv(to_float(x, real), to_float(y, real))
    if x.type.width == 64:  # an int64 may be rounded up to 2**63
        fits = builder.fcmp_ordered("<", ratio, real(_LARGEST))
        ratio = builder.select(fits, ratio, real(_LARGEST))
    return to_integer(ratio, x.type)


def _from_zero(builder: Builder, x: ir.Value, y: ir.Value, near: Divided) -> Divided:
    """Correct a quotient that is too far from zero by one: the remainder has the sign of `x`."""
    is_beyond = _differ_in_sign(builder, near.rest, x)
    step = builder.select(_is_negative(builder, builder.xor(x, y)), y.type(-1), y.type(1))
    step = builder.select(is_beyond, step, y.type(0))
    rest = builder.add(near.rest, builder.mul(step, y))
    return Divided(builder.sub(near.quotient, step), rest)


def _is_negative(builder: Builder, x: ir.Value) -> ir.Value:
    return builder.icmp_signed("<", x, x.type(0))


def _differ_in_sign(builder: Builder, rest: ir.Value, y: ir.Value) -> ir.Value:
    """Return whether `rest` is not 0 and has another sign than `y`."""
    is_some = builder.icmp_signed("!=", rest, rest.type(0))
    return builder.and_(is_some, _is_negative(builder, builder.xor(rest, y)))


def _floored(builder: Builder, y: ir.Value, divided: Divided) -> Divided:
    """Return the quotient rounded down, with a remainder of the sign of `y`."""
    is_below = _differ_in_sign(builder, divided.rest, y)
    quotient = builder.select(is_below, builder.sub(divided.quotient, y.type(1)), divided.quotient)
    rest = builder.select(is_below, builder.add(divided.rest, y), divided.rest)
    return Divided(quotient, rest)


def _division(choose: Callable[[Divided], ir.Value], negated: bool, floored: bool) -> Any:
    """Make the intrinsic of a quotient or a remainder of integers; division by 0 gives 0."""

    def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> ir.Value:
        x, y = args
        zero, one, signed = y.type(0), y.type(1), signature.return_type.signed
        if isinstance(y, ir.Constant) and y.constant not in (0, -1):
            return choose(_divided(builder, x, y, signed, floored))
        is_zero = builder.icmp_signed("==", y, zero)
        if not signed:
            safe = builder.select(is_zero, one, y)
            result = choose(_truncated(builder, x, safe, signed=False))
            return builder.select(is_zero, zero, result)
        # The smallest number by -1 overflows, so that is done by negation.
        is_minus = builder.icmp_signed("==", y, y.type(-1))
        safe = builder.select(builder.or_(is_zero, is_minus), one, y)
        result = choose(_divided(builder, x, safe, signed, floored))
        by_minus = builder.neg(x) if negated else zero
        return builder.select(is_zero, zero, builder.select(is_minus, by_minus, result))

    return intrinsic(lambda typingctx, x, y: (x(x, y), codegen))


def _divided(builder: Builder, x: ir.Value, y: ir.Value, signed: bool, floored: bool) -> Divided:
    divided = _truncated(builder, x, y, signed)
    return _floored(builder, y, divided) if floored and signed else divided


# As C rounds, and as Python does.
truncdiv = _division(lambda d: d.quotient, negated=True, floored=False)
remainder = _division(lambda d: d.rest, negated=False, floored=False)
floordiv = _division(lambda d: d.quotient, negated=True, floored=True)
mod = _division(lambda d: d.rest, negated=False, floored=True)
