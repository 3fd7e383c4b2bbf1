"""CPython 3.13: superinstructions, TO_BOOL, CALL_KW, function attributes, NULL above callables."""

from __future__ import annotations

from minitorch2.bytecode.machine.decoder import Decoder, RawInstruction
from minitorch2.bytecode.machine.encoder import Encoder
from minitorch2.bytecode.machine.errors import BytecodeError
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.machine.versions import rules
from minitorch2.bytecode.machine.versions.version import BytecodeVersion


def decode_load_fast(decoder: Decoder, raw: RawInstruction) -> None:
    """Decode LOAD_FAST, which also loads cells for closures: LOAD_CLOSURE is gone.

    A free variable's slot always holds its cell. An own cell's slot may be lent to a plain variable
    of a comprehension; `decode_function_attribute` finds the loads that make a closure.
    """
    if raw.arg >= len(decoder.slots.names) - len(decoder.slots.freevars):
        decoder.emit("LOAD_CLOSURE", decoder.cell_name(raw.arg))
    else:
        decoder.emit("LOAD_FAST", decoder.fast_name(raw.arg))


def encode_load_closure(encoder: Encoder, instruction: Instruction) -> None:
    """Encode LOAD_CLOSURE as a load of the slot that holds the cell."""
    encoder.emit("LOAD_FAST_CHECK", encoder.slots.deref(instruction.argval))


def decode_function_attribute(decoder: Decoder, raw: RawInstruction) -> None:
    """Decode SET_FUNCTION_ATTRIBUTE, which adds a part to the function that was just made."""
    (part,) = (name for bit, name in enumerate(rules.FUNCTION_PARTS) if raw.arg >> bit & 1)
    if part == "closure":
        _mark_closure_loads(decoder)
    parts = decoder.take_last("MAKE_FUNCTION").argval
    decoder.emit("MAKE_FUNCTION", parts | {part})


def _mark_closure_loads(decoder: Decoder) -> None:
    """Mark the loads of n cells before `BUILD_TUPLE n; LOAD_CONST code; MAKE_FUNCTION`."""
    build_tuple = decoder.instructions[-3]
    if build_tuple.opname != "BUILD_TUPLE":
        raise BytecodeError("a closure is not made as expected")
    for load in decoder.instructions[-3 - build_tuple.argval : -3]:
        load.opname = "LOAD_CLOSURE"


def encode_make_function(encoder: Encoder, instruction: Instruction) -> None:
    """Encode MAKE_FUNCTION, then its parts from the top of the stack down."""
    encoder.emit("MAKE_FUNCTION")
    for bit, part in reversed(list(enumerate(rules.FUNCTION_PARTS))):
        if part in instruction.argval:
            encoder.emit("SET_FUNCTION_ATTRIBUTE", 1 << bit)


def decode_convert_value(decoder: Decoder, raw: RawInstruction) -> None:
    """Decode CONVERT_VALUE: the conversion of an f-string field, apart from its formatting."""
    decoder.emit("CONVERT_VALUE", rules.CONVERSIONS[raw.arg])


def decode_format(decoder: Decoder, raw: RawInstruction) -> None:
    """Decode FORMAT_SIMPLE and FORMAT_WITH_SPEC."""
    decoder.emit("FORMAT_VALUE", (None, raw.opname == "FORMAT_WITH_SPEC"))


def encode_convert_value(encoder: Encoder, instruction: Instruction) -> None:
    """Encode CONVERT_VALUE."""
    encoder.emit("CONVERT_VALUE", rules.CONVERSIONS.index(instruction.argval))


def encode_format_value(encoder: Encoder, instruction: Instruction) -> None:
    """Encode FORMAT_VALUE, whose conversion comes first."""
    conversion, has_spec = instruction.argval
    if conversion is not None:
        encoder.emit("CONVERT_VALUE", rules.CONVERSIONS.index(conversion))
    encoder.emit("FORMAT_WITH_SPEC" if has_spec else "FORMAT_SIMPLE")


def encode_unary_not(encoder: Encoder, instruction: Instruction) -> None:
    """Encode UNARY_NOT, which takes an exact bool."""
    encoder.emit("TO_BOOL")
    encoder.emit("UNARY_NOT")


DECODE = rules.DECODE_SINCE_3_12 | {
    "LOAD_FAST": decode_load_fast,
    "LOAD_FAST_CHECK": decode_load_fast,
    "LOAD_FAST_LOAD_FAST": rules.local_pair("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": rules.local_pair("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": rules.local_pair("STORE_FAST", "STORE_FAST"),
    "LOAD_GLOBAL": rules.decode_load_global_null_last,
    "COMPARE_OP": rules.compare_op(shift=5),
    "TO_BOOL": rules.drop,
    "CALL_KW": rules.decode_call_kw,
    "CONVERT_VALUE": decode_convert_value,
    "FORMAT_SIMPLE": decode_format,
    "FORMAT_WITH_SPEC": decode_format,
    "SET_FUNCTION_ATTRIBUTE": decode_function_attribute,
    "END_FOR": rules.drop_with_next,
}

ENCODE = rules.ENCODE_SINCE_3_12 | {
    "LOAD_CLOSURE": encode_load_closure,
    "COMPARE_OP": rules.encode_compare_op(shift=5),
    "UNARY_NOT": encode_unary_not,
    "CALL": rules.encode_call_with_names_on_stack,
    "CONVERT_VALUE": encode_convert_value,
    "FORMAT_VALUE": encode_format_value,
    "MAKE_FUNCTION": encode_make_function,
    "POP_JUMP_IF_TRUE": rules.encode_truth_jump,
    "POP_JUMP_IF_FALSE": rules.encode_truth_jump,
    "POP_JUMP_IF_NONE": rules.encode_forward_jump,
    "POP_JUMP_IF_NOT_NONE": rules.encode_forward_jump,
}

VERSION = BytecodeVersion(decode=DECODE, encode=ENCODE, loop_exit=("END_FOR", "POP_TOP"))
