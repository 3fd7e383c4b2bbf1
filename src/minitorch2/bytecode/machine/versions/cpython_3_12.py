"""CPython 3.12: inlined comprehensions, intrinsics, END_FOR, LOAD_ATTR with a method bit."""

from __future__ import annotations

from minitorch2.bytecode.machine.versions import rules
from minitorch2.bytecode.machine.versions.version import BytecodeVersion

DECODE = {
    "LOAD_FAST_CHECK": rules.local("LOAD_FAST"),
    "LOAD_GLOBAL": rules.decode_load_global_null_first,
    "LOAD_ATTR": rules.decode_load_attr,
    "LOAD_SUPER_ATTR": rules.decode_load_super_attr,
    "BINARY_OP": rules.decode_binary_op,
    "COMPARE_OP": rules.compare_op(shift=4),
    "IS_OP": rules.decode_invertible,
    "CONTAINS_OP": rules.decode_invertible,
    "KW_NAMES": rules.decode_keyword_names,
    "CALL": rules.decode_call,
    "CALL_INTRINSIC_1": rules.decode_intrinsic,
    "CALL_INTRINSIC_2": rules.decode_intrinsic,
    "RETURN_CONST": rules.decode_return_const,
    "UNPACK_EX": rules.decode_unpack_ex,
    "FORMAT_VALUE": rules.decode_format_value,
    "MAKE_FUNCTION": rules.decode_make_function,
    "JUMP_FORWARD": rules.jump("JUMP"),
    "JUMP_BACKWARD": rules.jump("JUMP"),
    "JUMP_BACKWARD_NO_INTERRUPT": rules.jump("JUMP_NO_INTERRUPT"),
    "END_FOR": rules.drop,
}

ENCODE = {
    "LOAD_FAST": rules.encode_load_fast,
    "LOAD_GLOBAL": rules.encode_load_global,
    "LOAD_ATTR": rules.encode_load_attr,
    "LOAD_METHOD": rules.encode_load_attr,
    "LOAD_SUPER_ATTR": rules.encode_load_super_attr,
    "LOAD_SUPER_METHOD": rules.encode_load_super_attr,
    "BINARY_OP": rules.encode_binary_op,
    "COMPARE_OP": rules.encode_compare_op(shift=4),
    "CALL": rules.encode_call("CALL"),
    "CALL_INTRINSIC_1": rules.encode_intrinsic,
    "CALL_INTRINSIC_2": rules.encode_intrinsic,
    "UNPACK_EX": rules.encode_unpack_ex,
    "FORMAT_VALUE": rules.encode_format_value,
    "MAKE_FUNCTION": rules.encode_make_function,
    "JUMP": rules.encode_jump,
    "JUMP_NO_INTERRUPT": rules.encode_jump_no_interrupt,
    "FOR_ITER": rules.encode_for_iter_to_loop_exit,
}
ENCODE |= dict.fromkeys(rules.INTRINSICS_OF_OPCODES, rules.encode_opcode_as_intrinsic)
ENCODE |= {f"POP_JUMP_IF_{condition}": rules.encode_forward_jump for condition in rules.CONDITIONS}

VERSION = BytecodeVersion(decode=DECODE, encode=ENCODE, loop_exit=("END_FOR",))
