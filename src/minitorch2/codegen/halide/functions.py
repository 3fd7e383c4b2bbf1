"""Primitives of the loop IR as Halide expressions: what printed kernels call `lib`.

Two rules of Halide shape this file. Signed integers must not overflow, so arithmetic of integers
wraps as unsigned. `x >= y` means `not x < y`, so comparisons with NaN are made of `<` and `==`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import halide as hl

from minitorch2.codegen.halide import NOTHING_WRONG
from minitorch2.codegen.halide.elementary import (
    CASTS,
    bits,
    copysign,
    from_bits,
    function,
    ge,
    le,
    lshift,
    neg,
    wrapping,
)
from minitorch2.loopir.ops import ELEMENTWISE

TYPES = {
    "bool": hl.UInt(1), "float32": hl.Float(32), "float64": hl.Float(64), "int8": hl.Int(8),
    "int16": hl.Int(16), "int32": hl.Int(32), "int64": hl.Int(64), "uint8": hl.UInt(8),
    "uint16": hl.UInt(16), "uint32": hl.UInt(32), "uint64": hl.UInt(64),
}  # fmt: skip


def constant(value: Any, kind: str) -> Any:
    """Return a number of a type."""
    return hl.cast(hl.UInt(1), bool(value)) if kind == "bool" else CASTS[kind](value)


def convert(x: Any, kind: str) -> Any:
    """Return a value as another type; a float becomes a short integer by way of a long one."""
    if kind == "bool":
        return x if x.type().is_bool() else x != hl.cast(x.type(), 0)
    if x.type().is_float() and kind in ("int8", "int16", "uint8", "uint16"):
        x = hl.i32(x)
    return hl.cast(TYPES[kind], x)


def bitcast(x: Any, kind: str) -> Any:
    """Return the same bits as another type of this width."""
    return convert(x, kind) if "bool" in (kind, str(x.type())) else hl.reinterpret(TYPES[kind], x)


# -- 16-bit floats: the kind is the place of the fraction's first bit in a float32 -----------------


def _nan_pattern(x: Any, cut: int, exponent: int) -> tuple[Any, Any]:
    """Return whether a float32 is a NaN that fits 16 bits, and these bits."""
    pattern = hl.reinterpret(hl.UInt(32), x)
    short = ((pattern >> 16) & 0x8000) | exponent | ((pattern & 0x7FFFFF) >> cut)
    return hl.is_nan(x) & ((pattern & ((1 << cut) - 1)) == 0), hl.u16(short)


def _widened_nan(short: Any, cut: int) -> Any:
    word = hl.u32(short)
    fraction = (word & ((1 << (23 - cut)) - 1)) << cut
    return hl.reinterpret(hl.Float(32), ((word & 0x8000) << 16) | 0x7F800000 | fraction)


def from_float16(short: Any) -> Any:
    """Return 16 bits as the float32 of this number; NaN keep their fraction."""
    is_nan = (short & hl.u16(0x7FFF)) > hl.u16(0x7C00)
    return hl.select(is_nan, _widened_nan(short, 13), hl.f32(hl.reinterpret(hl.Float(16), short)))


def to_float16(x: Any) -> Any:
    """Return the 16 bits of the nearest float16."""
    fits, pattern = _nan_pattern(x, 13, 0x7C00)
    rounded = hl.reinterpret(hl.UInt(16), hl.cast(hl.Float(16), x))
    return hl.select(fits, pattern, hl.is_nan(x), hl.u16(0x7E00), rounded)


def from_bfloat16(short: Any) -> Any:
    """Return 16 bits as the float32 that they are the upper half of."""
    return hl.reinterpret(hl.Float(32), hl.u32(short) << 16)


def to_bfloat16(x: Any) -> Any:
    """Return the 16 bits of the nearest bfloat16, ties to even."""
    fits, pattern = _nan_pattern(x, 16, 0x7F80)
    word = hl.reinterpret(hl.UInt(32), x)
    rounded = hl.u16((word + ((word >> 16) & 1) + hl.u32(0x7FFF)) >> 16)
    return hl.select(fits, pattern, hl.is_nan(x), hl.u16(0x7FC0), rounded)


# -- elementwise primitives ------------------------------------------------------------------------


def maximum(x: Any, y: Any) -> Any:
    """Return the larger value, NaN if either is NaN."""
    if x.type().is_bool():
        return x | y
    return hl.select(hl.is_nan(x) | (x > y), x, y) if x.type().is_float() else hl.max(x, y)


def minimum(x: Any, y: Any) -> Any:
    """Return the smaller value, NaN if either is NaN."""
    if x.type().is_bool():
        return x & y
    return hl.select(hl.is_nan(x) | (x < y), x, y) if x.type().is_float() else hl.min(x, y)


def sign(x: Any) -> Any:
    """Return -1, 0 or 1; 0 for NaN."""
    kind, zero = x.type(), hl.cast(x.type(), 0)
    return hl.cast(kind, hl.i8(x > zero) - hl.i8(x < zero))


def _divided(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the quotient of integers rounded towards 0, and the rest; 0 where `y` is 0."""
    zero, one = hl.cast(x.type(), 0), hl.cast(x.type(), 1)
    if not x.type().is_int():
        safe = hl.select(y == zero, one, y)
        return hl.select(y == zero, zero, x / safe), hl.select(y == zero, zero, x % safe)
    is_special = (y == zero) | (y == -one)  # the lowest number has no quotient by -1
    safe = hl.select(is_special, one, y)
    quotient = hl.select(y == zero, zero, y == -one, neg(x), hl.div_round_to_zero(x, safe))
    return quotient, hl.select(is_special, zero, hl.mod_round_to_zero(x, safe))


def _floored(x: Any, y: Any) -> tuple[Any, Any]:
    quotient, rest = _divided(x, y)
    zero, one = hl.cast(x.type(), 0), hl.cast(x.type(), 1)
    is_above = (rest != zero) & ((rest < zero) != (y < zero))
    return hl.select(is_above, quotient - one, quotient), hl.select(is_above, rest + y, rest)


def _not(x: Any) -> Any:
    return hl.logical_not(x) if x.type().is_bool() else ~x


def _isnan(x: Any) -> Any:
    return hl.is_nan(x) if x.type().is_float() else constant(False, "bool")


def _isinf(x: Any) -> Any:
    return hl.abs(x) == CASTS[str(x.type())](float("inf"))


def _abs(x: Any) -> Any:
    return hl.cast(x.type(), hl.abs(x)) if x.type().is_int() or x.type().is_float() else x


def _rshift(x: Any, y: Any) -> Any:
    return x >> hl.cast(hl.UInt(y.type().bits()), y)


# Those that Python spells with a sign are printed with it (`handler.INFIX`).
_SIMPLE: dict[str, Callable[..., Any]] = {
    "add": partial(wrapping, lambda a, b: a + b), "sub": partial(wrapping, lambda a, b: a - b),
    "mul": partial(wrapping, lambda a, b: a * b),
    "truncdiv": lambda x, y: _divided(x, y)[0], "fmod": lambda x, y: _divided(x, y)[1],
    "floordiv": lambda x, y: _floored(x, y)[0], "mod": lambda x, y: _floored(x, y)[1],
    "neg": neg, "abs": _abs, "sign": sign, "maximum": maximum, "minimum": minimum,
    "copysign": copysign, "ge": ge, "le": le, "where": hl.select,
    "logical_and": lambda x, y: x & y, "logical_or": lambda x, y: x | y,
    "logical_xor": lambda x, y: x ^ y, "logical_not": _not, "bitwise_and": lambda x, y: x & y,
    "bitwise_or": lambda x, y: x | y, "bitwise_xor": lambda x, y: x ^ y, "bitwise_not": _not,
    "lshift": lshift, "rshift": _rshift, "floor": hl.floor, "ceil": hl.ceil, "trunc": hl.trunc,
    "round": hl.round, "isnan": _isnan, "isinf": _isinf, "signbit": lambda x: bits(x) < 0,
    "sqrt": hl.sqrt,
}  # fmt: skip


def __getattr__(name: str) -> Callable[..., Any]:
    """Return the elementwise primitive `name` as a function of expressions."""
    if name not in ELEMENTWISE and name not in _SIMPLE:
        raise AttributeError(f"halide.functions has no {name!r}")

    def apply(*args: Any) -> Any:
        kind = str(args[0].type())
        is_simple = name in _SIMPLE and not (name == "fmod" and kind.startswith("float"))
        return (_SIMPLE[name] if is_simple else function(name, kind))(*args)

    return apply


# -- memory ----------------------------------------------------------------------------------------


def shape(buffers: Sequence[Any], dims: Sequence[Sequence[tuple[int | str, int | str]]]) -> None:
    """Tell Halide the extents and strides that are known; names stand for those that vary."""
    for place, (buffer, of_buffer) in enumerate(zip(buffers, dims, strict=True)):
        for number, (extent, stride) in enumerate(of_buffer):
            dim = buffer.dim(number)
            if place == 0:  # the others have the same extents
                dim.set_min(0)
                dim.set_extent(extent if isinstance(extent, int) else hl.Expr())
            dim.set_stride(stride if isinstance(stride, int) else hl.Expr())


def inside(memory: Any, index: Any) -> Any:
    """Return an index that may be wrong where a mask is false, moved into the memory."""
    return hl.clamp(index, 0, memory.dim(0).extent() - 1)


def wrapped(value: Any, size: Any, wrap: bool) -> Any:
    """Return a computed index; by `wrap`, negative ones count from the end."""
    wide = hl.i64(value)
    return hl.select(wide < 0, wide + hl.i64(size), wide) if wrap else wide


def position(wide: Any, size: Any) -> Any:
    """Return a computed index as Halide's int32, in `0 <= index < size`."""
    return hl.i32(hl.clamp(wide, hl.i64(0), hl.i64(size) - 1))


def complaint(value: Any, wide: Any, size: Any, *masks: Any) -> Any:
    """Return a computed index if it is out of range where all masks hold."""
    is_wrong = (wide < 0) | (wide > hl.i64(size) - 1)
    for mask in masks:
        is_wrong = is_wrong & mask
    return hl.select(is_wrong, hl.i64(value), hl.i64(NOTHING_WRONG))


# -- reductions ------------------------------------------------------------------------------------


def summand(kind: str, x: Any, accumulator: str) -> Any:
    """Return a value as a reduction combines it, so that Halide sees that any order will do.

    Integers are unsigned. Floats of a maximum or minimum are integers in the same order, in which
    NaN wins.
    """
    if kind in ("max", "min") and x.type().is_float():
        pattern = bits(x)
        limit = (1 << (pattern.type().bits() - 1)) - 1
        rank = hl.select(pattern < 0, pattern ^ hl.cast(pattern.type(), limit), pattern)
        nan = limit if kind == "max" else -limit - 1
        return hl.select(hl.is_nan(x), hl.cast(pattern.type(), nan), rank)
    if x.type().is_bool():
        return hl.u8(x)
    return hl.cast(TYPES[accumulator], x) if x.type().is_float() else _bare(kind, x)


def _bare(kind: str, x: Any) -> Any:
    is_signed = x.type().is_int() and kind not in ("max", "min")
    return hl.cast(hl.UInt(x.type().bits()), x) if is_signed else x


def neutral(kind: str, x: Any, value: Any) -> Any:
    """Return the value that a reduction of such summands starts from."""
    if kind in ("max", "min") and x.type().is_float():
        return summand(kind, CASTS[str(x.type())](value), "")
    return summand(kind, constant(value, str(x.type())), str(x.type()))


COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda a, b: a + b, "prod": lambda a, b: a * b, "max": hl.max, "min": hl.min,
    "any": hl.max, "xor_sum": lambda a, b: a ^ b,
}  # fmt: skip


def total(x: Any, kind: str, dtype: str) -> Any:
    """Return what was combined as a value."""
    if kind in ("max", "min") and dtype.startswith("float"):
        limit = (1 << (x.type().bits() - 1)) - 1
        return from_bits(hl.select(x < 0, x ^ hl.cast(x.type(), limit), x))
    return convert(x, dtype)


def both(reference: Any) -> tuple[Any, Any]:
    """Return the two values of a function."""
    return hl.Expr(reference[0]), hl.Expr(reference[1])


def first_extreme(kind: str, best: Any, new: tuple[Any, Any]) -> Any:
    """Return the better of two (candidate, position): NaN wins, then the first position."""
    old, (candidate, place) = best[0], new
    is_better = candidate > old if kind == "argmax" else candidate < old
    is_equal = candidate == old
    if candidate.type().is_float():
        is_better = is_better | (hl.is_nan(candidate) & hl.logical_not(hl.is_nan(old)))
        is_equal = is_equal | (hl.is_nan(candidate) & hl.is_nan(old))
    is_new = is_better | (is_equal & (place < best[1]))
    return hl.Tuple([hl.select(is_new, candidate, old), hl.select(is_new, place, best[1])])


def autoschedule(pipeline: Any, name: str) -> None:
    """Let an autoscheduler that is part of Halide's package order a pipeline."""
    hl.load_plugin(f"{hl.install_dir()}/lib64/libautoschedule_{name.lower()}.so")
    parameters = hl.AutoschedulerParams(name, {"parallelism": str(os.cpu_count())})
    pipeline.apply_autoscheduler(hl.get_host_target(), parameters)
