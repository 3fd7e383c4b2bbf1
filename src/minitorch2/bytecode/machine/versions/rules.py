"""Rules that several version tables share. A rule for decoding emits canonical instructions for one
real instruction; a rule for encoding emits real instructions for one canonical instruction.
"""

from __future__ import annotations

import dis

from minitorch2.bytecode.machine.decoder import Decoder, DecodeRule, RawInstruction
from minitorch2.bytecode.machine.encoder import Encoder, EncodeRule, LoopExit
from minitorch2.bytecode.machine.errors import BytecodeError
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.native.cpython.library import NUMBERED_OPERATORS

BINARY_OPERATORS = tuple(symbol for _, symbol in NUMBERED_OPERATORS)
COMPARE_OPERATORS = ("<", "<=", "==", "!=", ">", ">=")
CONDITIONS = ("TRUE", "FALSE", "NONE", "NOT_NONE")
CONVERSIONS = (None, "s", "r", "a")
FUNCTION_PARTS = ("defaults", "kwdefaults", "annotations", "closure")
"""Parts of a function in stack order; bit i of MAKE_FUNCTION's flags stands for part i."""


def drop(decoder: Decoder, raw: RawInstruction) -> None:
    """Drop an opcode that has no canonical counterpart; its effect is implied."""


def drop_with_next(decoder: Decoder, raw: RawInstruction) -> None:
    """Drop this opcode and the next, which together have no canonical counterpart."""
    decoder.skip_next = True


def local(opname: str) -> DecodeRule:
    """Return the rule of an opcode on one local variable that has another canonical name."""

    def decode(decoder: Decoder, raw: RawInstruction) -> None:
        decoder.emit(opname, decoder.fast_name(raw.arg))

    return decode


def local_pair(first: str, second: str) -> DecodeRule:
    """Return the rule of a superinstruction on two locals, one in each half of the low byte."""

    def decode(decoder: Decoder, raw: RawInstruction) -> None:
        decoder.emit(first, decoder.fast_name(raw.arg >> 4))
        decoder.emit(second, decoder.fast_name(raw.arg & 15))

    return decode


# Jumps.


def jump(opname: str) -> DecodeRule:
    """Return the rule of a jump under its canonical, direction-free name."""

    def decode(decoder: Decoder, raw: RawInstruction) -> None:
        decoder.emit_jump(opname, raw.jump_offset)

    return decode


def encode_jump(encoder: Encoder, instruction: Instruction) -> None:
    """Encode JUMP, forward or backward."""
    back = encoder.jumps_back(instruction)
    encoder.emit_jump("JUMP_BACKWARD" if back else "JUMP_FORWARD", instruction.target)


def encode_jump_no_interrupt(encoder: Encoder, instruction: Instruction) -> None:
    """Encode JUMP_NO_INTERRUPT: only its backward form differs from JUMP."""
    back = encoder.jumps_back(instruction)
    encoder.emit_jump("JUMP_BACKWARD_NO_INTERRUPT" if back else "JUMP_FORWARD", instruction.target)


def encode_forward_jump(encoder: Encoder, instruction: Instruction) -> None:
    """Encode a conditional jump of versions (3.12+) that can only branch forward."""
    if encoder.jumps_back(instruction):
        raise BytecodeError(f"{instruction!r} must jump forward on this Python version")
    encoder.emit_jump(instruction.opname, instruction.target)


def encode_truth_jump(encoder: Encoder, instruction: Instruction) -> None:
    """Encode a conditional jump of versions (3.13+) that branch on exact bools."""
    encoder.emit("TO_BOOL")
    encode_forward_jump(encoder, instruction)


def encode_for_iter_to_loop_exit(encoder: Encoder, instruction: Instruction) -> None:
    """Encode FOR_ITER of versions (3.12+) that jump to an END_FOR."""
    assert instruction.target is not None
    encoder.emit_jump("FOR_ITER", LoopExit(instruction.target))


# Operators.


def decode_binary_op(decoder: Decoder, raw: RawInstruction) -> None:
    """Decode BINARY_OP: a number becomes a symbol."""
    decoder.emit("BINARY_OP", BINARY_OPERATORS[raw.arg])


def encode_binary_op(encoder: Encoder, instruction: Instruction) -> None:
    """Encode BINARY_OP: a symbol becomes a number."""
    encoder.emit("BINARY_OP", BINARY_OPERATORS.index(instruction.argval))


def compare_op(shift: int) -> DecodeRule:
    """Return COMPARE_OP's rule: `shift` bits below the operator only help specialization."""

    def decode(decoder: Decoder, raw: RawInstruction) -> None:
        decoder.emit("COMPARE_OP", COMPARE_OPERATORS[raw.arg >> shift])

    return decode


COMPARE_MASKS = {"<": 2, "<=": 10, "==": 8, "!=": 7, ">": 4, ">=": 12}
"""Results that make an operator true: unordered 1, less 2, greater 4, equal 8."""


def encode_compare_op(shift: int) -> EncodeRule:
    """Return COMPARE_OP's rule with the masks that CPython's specialized versions rely on."""

    def encode(encoder: Encoder, instruction: Instruction) -> None:
        symbol = instruction.argval
        mask = COMPARE_MASKS[symbol] if shift else 0
        encoder.emit("COMPARE_OP", COMPARE_OPERATORS.index(symbol) << shift | mask)

    return encode


def decode_invertible(decoder: Decoder, raw: RawInstruction) -> None:
    """Decode IS_OP and CONTAINS_OP, whose operand says whether the result is negated."""
    decoder.emit(raw.opname, bool(raw.arg))


# Names.


def encode_load_fast(encoder: Encoder, instruction: Instruction) -> None:
    """Encode LOAD_FAST in the form that checks that the variable is bound."""
    encoder.emit("LOAD_FAST_CHECK", encoder.slots.fast(instruction.argval))


def decode_load_global_null_first(decoder: Decoder, raw: RawInstruction) -> None:
    """Decode LOAD_GLOBAL of 3.11 and 3.12, which may push a NULL below the value."""
    if raw.arg & 1:
        decoder.emit("PUSH_NULL")
    decoder.emit("LOAD_GLOBAL", decoder.names[raw.arg >> 1])


def decode_load_global_null_last(decoder: Decoder, raw: RawInstruction) -> None:
    """Decode LOAD_GLOBAL of 3.13, which may push a NULL above the value."""
    decoder.emit("LOAD_GLOBAL", decoder.names[raw.arg >> 1])
    if raw.arg & 1:
        decoder.emit("PUSH_NULL")


def encode_load_global(encoder: Encoder, instruction: Instruction) -> None:
    """Encode LOAD_GLOBAL without its NULL, which is an instruction of its own here."""
    encoder.emit("LOAD_GLOBAL", encoder.name(instruction.argval) << 1)


def decode_load_attr(decoder: Decoder, raw: RawInstruction) -> None:
    """Decode LOAD_ATTR of 3.12+, whose low bit makes it a LOAD_METHOD."""
    decoder.emit("LOAD_METHOD" if raw.arg & 1 else "LOAD_ATTR", decoder.names[raw.arg >> 1])


def encode_load_attr(encoder: Encoder, instruction: Instruction) -> None:
    """Encode LOAD_ATTR and LOAD_METHOD of 3.12+."""
    is_method = instruction.opname == "LOAD_METHOD"
    encoder.emit("LOAD_ATTR", encoder.name(instruction.argval) << 1 | is_method)


def decode_load_super_attr(decoder: Decoder, raw: RawInstruction) -> None:
    """Decode LOAD_SUPER_ATTR: bit 0 means a method, bit 1 that super() had two arguments."""
    opname = "LOAD_SUPER_METHOD" if raw.arg & 1 else "LOAD_SUPER_ATTR"
    decoder.emit(opname, (decoder.names[raw.arg >> 2], bool(raw.arg & 2)))


def encode_load_super_attr(encoder: Encoder, instruction: Instruction) -> None:
    """Encode LOAD_SUPER_ATTR and LOAD_SUPER_METHOD."""
    name, explicit = instruction.argval
    is_method = instruction.opname == "LOAD_SUPER_METHOD"
    encoder.emit("LOAD_SUPER_ATTR", encoder.name(name) << 2 | explicit << 1 | is_method)


# Calls.


def decode_keyword_names(decoder: Decoder, raw: RawInstruction) -> None:
    """Decode KW_NAMES of 3.11 and 3.12, which announces the names of the next CALL."""
    decoder.keyword_names = decoder.constants[raw.arg]


def decode_call(decoder: Decoder, raw: RawInstruction) -> None:
    """Decode CALL, with the names that a KW_NAMES announced."""
    decoder.emit("CALL", (raw.arg, decoder.keyword_names))
    decoder.keyword_names = ()


def decode_call_kw(decoder: Decoder, raw: RawInstruction) -> None:
    """Decode CALL_KW of 3.13, which takes the names from the constant loaded just before."""
    decoder.emit("CALL", (raw.arg, decoder.take_last("LOAD_CONST").argval))


def encode_call(*opnames: str) -> EncodeRule:
    """Return the rule for CALL of 3.11 and 3.12: names, then the opcodes that make up a call."""

    def encode(encoder: Encoder, instruction: Instruction) -> None:
        count, names = instruction.argval
        if names:
            encoder.emit("KW_NAMES", encoder.constant(names))
        for opname in opnames:
            encoder.emit(opname, count)

    return encode


def encode_call_with_names_on_stack(encoder: Encoder, instruction: Instruction) -> None:
    """Encode CALL of 3.13: a call with names is an opcode of its own."""
    count, names = instruction.argval
    if names:
        encoder.emit("LOAD_CONST", encoder.constant(names))
    encoder.emit("CALL_KW" if names else "CALL", count)


# Values made of parts.


def decode_return_const(decoder: Decoder, raw: RawInstruction) -> None:
    """Decode RETURN_CONST of 3.12 and 3.13."""
    decoder.emit("LOAD_CONST", decoder.constants[raw.arg])
    decoder.emit("RETURN_VALUE")


def decode_unpack_ex(decoder: Decoder, raw: RawInstruction) -> None:
    """Decode UNPACK_EX: the numbers of targets before the starred one, and after it."""
    decoder.emit("UNPACK_EX", (raw.arg & 0xFF, raw.arg >> 8))


def encode_unpack_ex(encoder: Encoder, instruction: Instruction) -> None:
    """Encode UNPACK_EX: both counts in one argument."""
    before, after = instruction.argval
    encoder.emit("UNPACK_EX", before | after << 8)


def decode_format_value(decoder: Decoder, raw: RawInstruction) -> None:
    """Decode FORMAT_VALUE of 3.11 and 3.12: two bits of conversion, one for a format spec."""
    decoder.emit("FORMAT_VALUE", (CONVERSIONS[raw.arg & 3], bool(raw.arg & 4)))


def encode_format_value(encoder: Encoder, instruction: Instruction) -> None:
    """Encode FORMAT_VALUE of 3.11 and 3.12."""
    conversion, has_spec = instruction.argval
    encoder.emit("FORMAT_VALUE", CONVERSIONS.index(conversion) | has_spec << 2)


def decode_make_function(decoder: Decoder, raw: RawInstruction) -> None:
    """Decode MAKE_FUNCTION: flag bits become names of parts (3.13 has no flags here)."""
    parts = (part for bit, part in enumerate(FUNCTION_PARTS) if raw.arg >> bit & 1)
    decoder.emit("MAKE_FUNCTION", frozenset(parts))


def encode_make_function(encoder: Encoder, instruction: Instruction) -> None:
    """Encode MAKE_FUNCTION of 3.11 and 3.12."""
    encoder.emit("MAKE_FUNCTION", sum(1 << FUNCTION_PARTS.index(p) for p in instruction.argval))


# Intrinsic functions of 3.12+.

# CPython's own names of the intrinsic functions, in the order of their numbers.
INTRINSICS: dict[str, list[str]] = {
    "CALL_INTRINSIC_1": getattr(dis, "_intrinsic_1_descs", []),
    "CALL_INTRINSIC_2": getattr(dis, "_intrinsic_2_descs", []),
}
OPCODES_OF_INTRINSICS = {
    "INTRINSIC_PRINT": "PRINT_EXPR",
    "INTRINSIC_IMPORT_STAR": "IMPORT_STAR",
    "INTRINSIC_ASYNC_GEN_WRAP": "ASYNC_GEN_WRAP",
    "INTRINSIC_UNARY_POSITIVE": "UNARY_POSITIVE",
    "INTRINSIC_LIST_TO_TUPLE": "LIST_TO_TUPLE",
    "INTRINSIC_PREP_RERAISE_STAR": "PREP_RERAISE_STAR",
}
"""Intrinsics that were opcodes before; the canonical language keeps them as opcodes."""
INTRINSICS_OF_OPCODES = {opname: name for name, opname in OPCODES_OF_INTRINSICS.items()}


def decode_intrinsic(decoder: Decoder, raw: RawInstruction) -> None:
    """Turn a numbered intrinsic into an opcode, or keep its name as operand."""
    name = INTRINSICS[raw.opname][raw.arg]
    if name in OPCODES_OF_INTRINSICS:
        decoder.emit(OPCODES_OF_INTRINSICS[name])
    else:
        decoder.emit(raw.opname, name)


def encode_intrinsic(encoder: Encoder, instruction: Instruction) -> None:
    """Encode CALL_INTRINSIC_x by name."""
    encoder.emit(instruction.opname, INTRINSICS[instruction.opname].index(instruction.argval))


def encode_opcode_as_intrinsic(encoder: Encoder, instruction: Instruction) -> None:
    """Encode an opcode of older versions that is an intrinsic now."""
    name = INTRINSICS_OF_OPCODES[instruction.opname]
    opname = next(opname for opname, names in INTRINSICS.items() if name in names)
    encoder.emit(opname, INTRINSICS[opname].index(name))


# What versions share ------------------------------------------------------------------------------

DECODE: dict[str, DecodeRule] = {
    "BINARY_OP": decode_binary_op,
    "IS_OP": decode_invertible,
    "CONTAINS_OP": decode_invertible,
    "CALL": decode_call,
    "UNPACK_EX": decode_unpack_ex,
    "MAKE_FUNCTION": decode_make_function,
    "JUMP_FORWARD": jump("JUMP"),
    "JUMP_BACKWARD": jump("JUMP"),
    "JUMP_BACKWARD_NO_INTERRUPT": jump("JUMP_NO_INTERRUPT"),
}
DECODE_SINCE_3_12: dict[str, DecodeRule] = DECODE | {
    "LOAD_ATTR": decode_load_attr,
    "LOAD_SUPER_ATTR": decode_load_super_attr,
    "CALL_INTRINSIC_1": decode_intrinsic,
    "CALL_INTRINSIC_2": decode_intrinsic,
    "RETURN_CONST": decode_return_const,
}
ENCODE: dict[str, EncodeRule] = {
    "LOAD_GLOBAL": encode_load_global,
    "BINARY_OP": encode_binary_op,
    "UNPACK_EX": encode_unpack_ex,
    "JUMP": encode_jump,
    "JUMP_NO_INTERRUPT": encode_jump_no_interrupt,
}
ENCODE_SINCE_3_12: dict[str, EncodeRule] = (
    ENCODE
    | dict.fromkeys(INTRINSICS_OF_OPCODES, encode_opcode_as_intrinsic)
    | {
        "LOAD_FAST": encode_load_fast,
        "LOAD_ATTR": encode_load_attr,
        "LOAD_METHOD": encode_load_attr,
        "LOAD_SUPER_ATTR": encode_load_super_attr,
        "LOAD_SUPER_METHOD": encode_load_super_attr,
        "CALL_INTRINSIC_1": encode_intrinsic,
        "CALL_INTRINSIC_2": encode_intrinsic,
        "FOR_ITER": encode_for_iter_to_loop_exit,
    }
)
