"""CPython 3.12: inlined comprehensions, intrinsics, END_FOR, LOAD_ATTR with a method bit."""

from __future__ import annotations

from minitorch2.bytecode.machine.versions import rules
from minitorch2.bytecode.machine.versions.version import BytecodeVersion

DECODE = rules.DECODE_SINCE_3_12 | {
    "LOAD_FAST_CHECK": rules.local("LOAD_FAST"),
    "LOAD_GLOBAL": rules.decode_load_global_null_first,
    "COMPARE_OP": rules.compare_op(shift=4),
    "KW_NAMES": rules.decode_keyword_names,
    "FORMAT_VALUE": rules.decode_format_value,
    "END_FOR": rules.drop,
}

ENCODE = rules.ENCODE_SINCE_3_12 | {
    "COMPARE_OP": rules.encode_compare_op(shift=4),
    "CALL": rules.encode_call("CALL"),
    "FORMAT_VALUE": rules.encode_format_value,
    "MAKE_FUNCTION": rules.encode_make_function,
}
ENCODE |= {f"POP_JUMP_IF_{condition}": rules.encode_forward_jump for condition in rules.CONDITIONS}

VERSION = BytecodeVersion(decode=DECODE, encode=ENCODE, loop_exit=("END_FOR",))
