"""The arithmetic of the kernel language as LLVM instructions, with the types of Numba:

    integer op integer      int64 (uint64 if both are unsigned), wrapping around
    float32 op float32      float32
    float op anything else  float64, but for a literal integer, which takes the float's type
    /                       a float; division by zero is inf or NaN
    // and %                rounded down; of an integer by zero: 0
    & | ^ of booleans       boolean

Numba compiles the same text of a kernel to the same results.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types

Builder = Any
KINDS = {
    types.boolean: ir.IntType(1),
    types.float32: ir.FloatType(),
    types.float64: ir.DoubleType(),
    types.int8: ir.IntType(8), types.uint8: ir.IntType(8),
    types.int16: ir.IntType(16), types.uint16: ir.IntType(16),
    types.int32: ir.IntType(32), types.uint32: ir.IntType(32),
    types.int64: ir.IntType(64), types.uint64: ir.IntType(64),
}  # fmt: skip
"""The LLVM type of a value by its Numba type."""


@dataclass(frozen=True)
class Typed:
    """An LLVM value, its Numba type, and the number that it is if it is written as one."""

    value: ir.Value
    type: Any
    literal: int | float | None = None


def kind_of(type_: Any) -> ir.Type:
    """Return the LLVM type of a Numba type."""
    if isinstance(type_, types.CPointer):
        return kind_of(type_.dtype).as_pointer()
    return KINDS[type_]


def literal(number: bool | int | float) -> Typed:
    """Return a number as Python writes it: a boolean, an int64 or a float64."""
    type_: Any = types.int64 if isinstance(number, int) else types.float64
    type_ = types.boolean if isinstance(number, bool) else type_
    return Typed(ir.Constant(KINDS[type_], number), type_, number)


def is_float(type_: Any) -> bool:
    """Return whether a type is float32 or float64."""
    return isinstance(type_, types.Float)


def cast(builder: Builder, x: Typed, target: Any) -> Typed:
    """Return a value as another type."""
    if x.type == target:
        return x
    if x.literal is not None and is_float(target):
        return Typed(ir.Constant(KINDS[target], float(x.literal)), target)
    return Typed(_converted(builder, x, target), target)


def _converted(builder: Builder, x: Typed, target: Any) -> ir.Value:
    kind, signed = KINDS[target], _is_signed(x.type)
    if target == types.boolean:
        compare = builder.fcmp_unordered if is_float(x.type) else builder.icmp_signed
        return compare("!=", x.value, x.value.type(0))
    if is_float(x.type) and is_float(target):
        return (builder.fpext if target == types.float64 else builder.fptrunc)(x.value, kind)
    if is_float(x.type):
        return (builder.fptosi if _is_signed(target) else builder.fptoui)(x.value, kind)
    if is_float(target):
        return (builder.sitofp if signed else builder.uitofp)(x.value, kind)
    if KINDS[x.type].width > kind.width:
        return builder.trunc(x.value, kind)
    if KINDS[x.type].width == kind.width:
        return x.value
    return (builder.sext if signed else builder.zext)(x.value, kind)


def _is_signed(type_: Any) -> bool:
    return isinstance(type_, types.Integer) and bool(type_.signed)


def common(a: Typed, b: Typed) -> Any:
    """Return the type in which two operands meet."""
    floats = [x.type for x in (a, b) if is_float(x.type)]
    if floats:
        whole = [x for x in (a, b) if not is_float(x.type)]
        if len(floats) == 1 and whole[0].literal is not None:
            return floats[0]
        return types.float32 if floats == [types.float32] * 2 else types.float64
    if a.type == b.type == types.uint64:
        return types.uint64
    narrow = [x.type != types.uint64 or x.literal is not None for x in (a, b)]
    if not all(narrow):
        other = a if narrow[0] else b
        if other.literal is None and _is_signed(other.type):
            raise TypeError(f"{a.type} and {b.type} have no common type")
        return types.uint64
    return types.int64


_INTEGER = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
_FLOAT = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
_BITS = {ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor"}
_COMPARE = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


def binary(builder: Builder, operator: ast.operator, a: Typed, b: Typed, flags: Any = ()) -> Typed:
    """`a operator b`. `flags` are LLVM's for integers: "nsw" where none overflows.

    Raises:
        TypeError: the language has no such operation.
    """
    kind = type(operator)
    if kind in _BITS and a.type == b.type == types.boolean:
        return Typed(getattr(builder, _BITS[kind])(a.value, b.value), types.boolean)
    if kind in (ast.LShift, ast.RShift):
        return _shift(builder, kind, a, b)
    type_ = types.float64 if kind is ast.Div and not is_float(common(a, b)) else common(a, b)
    a, b = cast(builder, a, type_), cast(builder, b, type_)
    if kind in (ast.FloorDiv, ast.Mod):
        divide = _float_division if is_float(type_) else _integer_division
        return Typed(divide(builder, kind is ast.Mod, a, b), type_)
    table = _FLOAT if is_float(type_) else {**_INTEGER, **_BITS}
    if kind not in table:
        raise TypeError(f"no {kind.__name__} of {type_}")
    extra = {"flags": flags} if kind in _INTEGER and not is_float(type_) else {}
    return Typed(getattr(builder, table[kind])(a.value, b.value, **extra), type_)


def _shift(builder: Builder, kind: type[ast.operator], a: Typed, b: Typed) -> Typed:
    type_ = types.uint64 if a.type == types.uint64 else types.int64
    a, b = cast(builder, a, type_), cast(builder, b, type_)
    right = builder.ashr if type_ == types.int64 else builder.lshr
    return Typed((builder.shl if kind is ast.LShift else right)(a.value, b.value), type_)


def _integer_division(builder: Builder, remainder: bool, a: Typed, b: Typed) -> ir.Value:
    """Divide and round down; only an unknown divisor needs care for 0 and for -1."""
    x, y, zero = a.value, b.value, a.value.type(0)
    if b.type == types.uint64:
        is_zero = builder.icmp_unsigned("==", y, zero)
        safe = builder.select(is_zero, y.type(1), y)
        result = (builder.urem if remainder else builder.udiv)(x, safe)
        return builder.select(is_zero, zero, result)
    is_zero = builder.icmp_signed("==", y, zero)
    is_minus = builder.icmp_signed("==", y, y.type(-1))
    safe = builder.select(builder.or_(is_zero, is_minus), y.type(1), y)
    rest = builder.srem(x, safe)
    mixed = builder.icmp_signed("<", builder.xor(rest, safe), zero)
    is_below = builder.and_(builder.icmp_signed("!=", rest, zero), mixed)
    if remainder:
        result = builder.select(is_below, builder.add(rest, safe), rest)
        return builder.select(builder.or_(is_zero, is_minus), zero, result)
    quotient = builder.sdiv(x, safe)
    result = builder.select(is_below, builder.sub(quotient, y.type(1)), quotient)
    result = builder.select(is_minus, builder.neg(x), result)
    return builder.select(is_zero, zero, result)


def _float_division(builder: Builder, remainder: bool, a: Typed, b: Typed) -> ir.Value:
    """Divide as Python does, with the quotient of the C library's remainder."""
    x, y, zero = a.value, b.value, a.value.type(0)
    rest = builder.frem(x, y)
    different = builder.xor(
        builder.fcmp_ordered("<", rest, zero), builder.fcmp_ordered("<", y, zero)
    )
    is_below = builder.and_(builder.fcmp_unordered("!=", rest, zero), different)
    if remainder:
        return builder.select(is_below, builder.fadd(rest, y), rest)
    exact = builder.fdiv(builder.fsub(x, rest), y)
    nearest = _call(builder, "llvm.roundeven", exact)
    quotient = builder.select(is_below, builder.fsub(nearest, x.type(1)), nearest)
    signed = _call(builder, "llvm.copysign", quotient, builder.fdiv(x, y))
    quotient = builder.select(builder.fcmp_ordered("==", quotient, zero), signed, quotient)
    by_zero = builder.fcmp_ordered("==", y, zero)
    return builder.select(by_zero, builder.fdiv(x, y), quotient)


def _call(builder: Builder, name: str, *args: ir.Value) -> ir.Value:
    kind = ir.FunctionType(args[0].type, [arg.type for arg in args])
    return builder.call(builder.module.declare_intrinsic(name, (args[0].type,), kind), args)


def compare(builder: Builder, operator: ast.cmpop, a: Typed, b: Typed) -> Typed:
    """`a operator b`: NaN differs from everything."""
    sign, type_ = _COMPARE[type(operator)], common(a, b)
    a, b = cast(builder, a, type_), cast(builder, b, type_)
    if is_float(type_):
        how = builder.fcmp_unordered if sign == "!=" else builder.fcmp_ordered
    else:
        how = builder.icmp_unsigned if type_ == types.uint64 else builder.icmp_signed
    return Typed(how(sign, a.value, b.value), types.boolean)


def unary(builder: Builder, operator: ast.unaryop, x: Typed) -> Typed:
    """`-x`, `~x`, `not x`.

    Raises:
        TypeError: the language has no such operation.
    """
    if isinstance(operator, ast.Not):
        return Typed(builder.not_(cast(builder, x, types.boolean).value), types.boolean)
    if isinstance(operator, ast.USub) and x.literal is not None:
        return literal(-x.literal)
    if isinstance(operator, ast.USub) and is_float(x.type):
        return Typed(builder.fneg(x.value), x.type)
    wide = cast(builder, x, types.uint64 if x.type == types.uint64 else types.int64)
    if isinstance(operator, ast.USub):
        return Typed(builder.neg(wide.value), wide.type)
    if isinstance(operator, ast.Invert):
        return Typed(builder.not_(wide.value), wide.type)
    raise TypeError(f"no {type(operator).__name__} of {x.type}")


def select(builder: Builder, condition: Typed, a: Typed, b: Typed) -> Typed:
    """`a if condition else b`, both computed."""
    type_ = a.type if a.type == b.type else common(a, b)
    chosen = [cast(builder, x, type_).value for x in (a, b)]
    return Typed(builder.select(cast(builder, condition, types.boolean).value, *chosen), type_)
