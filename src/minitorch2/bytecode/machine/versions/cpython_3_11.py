"""CPython 3.11: PRECALL, KW_NAMES, jumps with a direction in their name, zero-cost exceptions."""

from __future__ import annotations

from minitorch2.bytecode.machine.encoder import Encoder
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.machine.versions import rules
from minitorch2.bytecode.machine.versions.version import BytecodeVersion


def encode_directed_jump(encoder: Encoder, instruction: Instruction) -> None:
    """Encode POP_JUMP_IF_x as POP_JUMP_FORWARD_IF_x or POP_JUMP_BACKWARD_IF_x."""
    direction = "BACKWARD" if encoder.jumps_back(instruction) else "FORWARD"
    opname = instruction.opname.replace("POP_JUMP", f"POP_JUMP_{direction}")
    encoder.emit_jump(opname, instruction.target)


DECODE = rules.DECODE | {
    "LOAD_GLOBAL": rules.decode_load_global_null_first,
    "COMPARE_OP": rules.compare_op(shift=0),
    "KW_NAMES": rules.decode_keyword_names,
    "PRECALL": rules.drop,
    "FORMAT_VALUE": rules.decode_format_value,
}
for condition in rules.CONDITIONS:
    for direction in ("FORWARD", "BACKWARD"):
        DECODE[f"POP_JUMP_{direction}_IF_{condition}"] = rules.jump(f"POP_JUMP_IF_{condition}")

ENCODE = (
    rules.ENCODE
    | {
        "COMPARE_OP": rules.encode_compare_op(shift=0),
        "CALL": rules.encode_call("PRECALL", "CALL"),
        "FORMAT_VALUE": rules.encode_format_value,
        "MAKE_FUNCTION": rules.encode_make_function,
    }
    | {f"POP_JUMP_IF_{condition}": encode_directed_jump for condition in rules.CONDITIONS}
)

VERSION = BytecodeVersion(decode=DECODE, encode=ENCODE, loop_exit=())
