"""LLVM operations that `vecmath` and kernels need and that Numba does not spell.

Each is a Numba intrinsic: a name that type-checks in Python source and lowers to one or a few LLVM
instructions. None of them changes the meaning of NaN or infinity. `add_any_order` and its like only
allow the additions of one accumulator to be regrouped, so that a sum can be vectorized.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

# What Numba hands to a lowering function: it publishes no types for them.
Builder = Any
Emit = Callable[[Builder, tuple[ir.Value, ...]], ir.Value]

_BITS_OF = {types.float32: types.int32, types.float64: types.int64}
_FLOAT_OF = {bits: number for number, bits in _BITS_OF.items()}
_HALF_BITS = types.uint16


def _same_type(emit: Emit, arity: int) -> Any:
    """Make an intrinsic of `arity` arguments of one float type that returns the same type."""

    def typed(first: Any) -> Any:
        def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> ir.Value:
            return emit(builder, args)

        return (first(*[first] * arity), codegen) if isinstance(first, types.Float) else None

    if arity == 1:
        return intrinsic(lambda typingctx, a: typed(a))
    if arity == 2:
        return intrinsic(lambda typingctx, a, b: typed(a))
    return intrinsic(lambda typingctx, a, b, c: typed(a))


def _llvm(name: str) -> Emit:
    """Call the overloaded LLVM intrinsic `name` at its arguments' type."""

    def emit(builder: Builder, args: tuple[ir.Value, ...]) -> ir.Value:
        function = builder.module.declare_intrinsic(
            name, (args[0].type,), ir.FunctionType(args[0].type, [a.type for a in args])
        )
        return builder.call(function, args)

    return emit


def _rounded(name: str) -> Emit:
    """Round to an integer of the same sign: so LLVM does not round float16 one by one."""

    def emit(builder: Builder, args: tuple[ir.Value, ...]) -> ir.Value:
        return _llvm("llvm.copysign")(builder, (_llvm(name)(builder, args), *args))

    return emit


fma = _same_type(_llvm("llvm.fmuladd"), 3)
fused = _same_type(_llvm("llvm.fma"), 3)  # rounded once on every processor
floor = _same_type(_rounded("llvm.floor"), 1)
ceil = _same_type(_rounded("llvm.ceil"), 1)
trunc = _same_type(_rounded("llvm.trunc"), 1)
round_even = _same_type(_rounded("llvm.roundeven"), 1)
sqrt = _same_type(_llvm("llvm.sqrt"), 1)
absolute = _same_type(_llvm("llvm.fabs"), 1)
copysign = _same_type(_llvm("llvm.copysign"), 2)


def _extreme(sign: str, name: str) -> Emit:
    """Return one of two numbers, NaN if either is NaN, in three instructions.

    LLVM's own takes six to put -0.0 below 0.0, which eager does not do. For a constant it takes
    two.
    """

    def emit(builder: Builder, args: tuple[ir.Value, ...]) -> ir.Value:
        if any(isinstance(arg, ir.Constant) for arg in args):
            return _llvm(name)(builder, args)
        chosen = builder.select(builder.fcmp_ordered(sign, *args), *args)
        return builder.select(builder.fcmp_unordered("uno", args[0], args[0]), args[0], chosen)

    return emit


maximum = _same_type(_extreme(">", "llvm.maximum"), 2)
minimum = _same_type(_extreme("<", "llvm.minimum"), 2)
# The vectorizer knows these as reductions.
maximum_any_order = _same_type(_llvm("llvm.maximum"), 2)
minimum_any_order = _same_type(_llvm("llvm.minimum"), 2)

_ANY_ORDER = ("reassoc", "contract")
add_any_order = _same_type(lambda b, args: b.fadd(*args, flags=_ANY_ORDER), 2)
multiply_any_order = _same_type(lambda b, args: b.fmul(*args, flags=_ANY_ORDER), 2)


@intrinsic
def bits(typingctx: Any, number: Any) -> Any:
    """Return the bit pattern of a float32 (float64) as an int32 (int64)."""
    return _BITS_OF[number](number), _bitcast


@intrinsic
def from_bits(typingctx: Any, pattern: Any) -> Any:
    """Return the float32 (float64) whose bit pattern is this int32 (int64)."""
    return _FLOAT_OF[pattern](pattern), _bitcast


def _bitcast(context: Any, builder: Builder, signature: Any, args: Any) -> ir.Value:
    return builder.bitcast(args[0], context.get_value_type(signature.return_type))


def _rank(nan_is_first: bool) -> Any:
    """Map numbers to integers of the same order, whose largest takes an instruction, with NaN."""

    def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> ir.Value:
        kind = context.get_value_type(signature.return_type)
        rank = _flip_negatives(builder, builder.bitcast(args[0], kind))
        nan = kind(-(1 << (kind.width - 1)) if nan_is_first else (1 << (kind.width - 1)) - 1)
        return builder.select(builder.fcmp_unordered("uno", *args * 2), nan, rank)

    return intrinsic(lambda typingctx, number: (_BITS_OF[number](number), codegen))


def _flip_negatives(builder: Builder, pattern: ir.Value) -> ir.Value:
    kind = pattern.type
    magnitude = builder.lshr(builder.ashr(pattern, kind(kind.width - 1)), kind(1))
    return builder.xor(pattern, magnitude)


rank_nan_last = _rank(nan_is_first=False)
rank_nan_first = _rank(nan_is_first=True)


@intrinsic
def from_rank(typingctx: Any, rank: Any) -> Any:
    """Return the number of a rank."""

    def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> ir.Value:
        pattern = _flip_negatives(builder, args[0])
        return builder.bitcast(pattern, context.get_value_type(signature.return_type))

    return _FLOAT_OF[rank](rank), codegen


@intrinsic
def polynomial(typingctx: Any, x: Any, coefficients: Any) -> Any:
    """`c[0] + c[1]*x + c[2]*x**2 + ...` by Horner's rule, in the type of `x`."""

    def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> ir.Value:
        number, constants = args
        emit = _llvm("llvm.fmuladd")
        terms = [builder.extract_value(constants, i) for i in range(coefficients.count)]
        if x == types.float32:
            terms = [builder.fptrunc(term, ir.FloatType()) for term in terms]
        total = terms[-1]
        for term in reversed(terms[:-1]):
            total = emit(builder, (total, number, term))
        return total

    return x(x, coefficients), codegen


def _half_load(kind: ir.Type) -> Any:
    def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> ir.Value:
        return builder.fpext(builder.bitcast(args[0], kind), ir.FloatType())

    return intrinsic(lambda typingctx, pattern: (types.float32(_HALF_BITS), codegen))


def _half_store(kind: ir.Type) -> Any:
    def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> ir.Value:
        return builder.bitcast(builder.fptrunc(args[0], kind), ir.IntType(16))

    return intrinsic(lambda typingctx, number: (_HALF_BITS(types.float32), codegen))


# A float16 lives in memory as its 16 bits and is computed with as a float32.
from_float16 = _half_load(ir.HalfType())
to_float16 = _half_store(ir.HalfType())


@intrinsic
def from_bfloat16(typingctx: Any, pattern: Any) -> Any:
    """Return a bfloat16's 16 bits as the float32 they are the upper half of."""

    def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> ir.Value:
        wide = builder.zext(args[0], ir.IntType(32))
        return builder.bitcast(builder.shl(wide, wide.type(16)), ir.FloatType())

    return types.float32(_HALF_BITS), codegen


@intrinsic
def to_bfloat16(typingctx: Any, number: Any) -> Any:
    """Round a float32 to the nearest bfloat16 (ties to even), as 16 bits; NaN stays NaN."""

    def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> ir.Value:
        word = ir.IntType(32)
        pattern = builder.bitcast(args[0], word)
        odd = builder.and_(builder.lshr(pattern, word(16)), word(1))
        rounded = builder.lshr(builder.add(pattern, builder.add(odd, word(0x7FFF))), word(16))
        is_nan = builder.fcmp_unordered("uno", args[0], args[0])
        return builder.trunc(builder.select(is_nan, word(0x7FC0), rounded), ir.IntType(16))

    return _HALF_BITS(types.float32), codegen


@intrinsic
def cut_bfloat16(typingctx: Any, number: Any) -> Any:
    """Return a float32 that is a bfloat16, as the 16 bits that it needs."""

    def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> ir.Value:
        word = ir.IntType(32)
        return builder.trunc(builder.lshr(builder.bitcast(args[0], word), word(16)), ir.IntType(16))

    return _HALF_BITS(types.float32), codegen


@intrinsic
def where(typingctx: Any, condition: Any, x: Any, y: Any) -> Any:
    """`x if condition else y`, without a branch; x and y have one type."""
    if condition != types.boolean or x != y:
        return None

    def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> ir.Value:
        return builder.select(*args)

    return x(condition, x, y), codegen


def _select_integer(sign: str) -> Any:
    """Return the smaller or larger of two integers; Numba's `min` calls another module."""

    def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> ir.Value:
        compare = builder.icmp_signed if signature.return_type.signed else builder.icmp_unsigned
        return builder.select(compare(sign, *args), *args)

    return intrinsic(
        lambda typingctx, x, y: (
            _common_integer(x, y)(_common_integer(x, y), _common_integer(x, y)),
            codegen,
        )
    )


def _common_integer(x: Any, y: Any) -> Any:
    """Return the type of two integers of one type, or of an integer and a literal."""
    return x if x == y and not isinstance(x, types.IntegerLiteral) else types.int64


smaller = _select_integer("<")
larger = _select_integer(">")


def _shift(name: str) -> Any:
    """Shift bits by less than a word's width, within the word."""

    def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> ir.Value:
        signed = signature.return_type.signed
        return getattr(builder, name if signed or name == "shl" else "lshr")(*args)

    return intrinsic(lambda typingctx, x, y: (x(x, x), codegen))


lshift = _shift("shl")
rshift = _shift("ashr")


@intrinsic
def local_array(typingctx: Any, length: Any, element: Any) -> Any:
    """Make a scratch array on the stack: `local_array(256, float32)`, `length` being a literal."""
    if not isinstance(length, types.IntegerLiteral):
        return None
    signature = types.CPointer(element.dtype)(length, element)

    def codegen(context: Any, builder: Builder, signature: Any, args: Any) -> ir.Value:
        kind = ir.ArrayType(context.get_data_type(element.dtype), length.literal_value)
        with builder.goto_entry_block():
            array = builder.alloca(kind)
            array.align = 64
        return builder.bitcast(array, context.get_value_type(signature.return_type))

    return signature, codegen
