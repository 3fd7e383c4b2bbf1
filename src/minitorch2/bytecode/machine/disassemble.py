"""From a code object to canonical instructions."""

from __future__ import annotations

import dis
from bisect import bisect_left
from collections.abc import Iterator
from types import CodeType

from minitorch2.bytecode.machine.decoder import Decoder, RawInstruction, decode_by_family
from minitorch2.bytecode.machine.errors import BytecodeError
from minitorch2.bytecode.machine.instruction import ExceptionHandler, Instruction
from minitorch2.bytecode.machine.versions import current_version
from minitorch2.native.cpython.tables import parse_exception_table

CACHE = dis.opmap["CACHE"]
EXTENDED_ARG = dis.opmap["EXTENDED_ARG"]


def disassemble(code: CodeType) -> list[Instruction]:
    """Return the canonical instructions of a code object, with jumps and handlers resolved.

    Two calls give two separate lists, so a list may be edited.

    Raises:
        UnsupportedPythonError: there is no table for this Python version.
        BytecodeError: this version's compiler does not make such code.
    """
    rules = current_version().decode
    decoder = Decoder(code)
    for raw in read_instructions(code.co_code):
        if decoder.skip_next:
            decoder.skip_next = False
            continue
        decoder.start(raw)
        rules.get(raw.opname, decode_by_family)(decoder, raw)
    for jump, offset in decoder.jumps.items():
        jump.target = _instruction_at(decoder.instructions, offset)
    _resolve_handlers(code, decoder.instructions)
    return decoder.instructions


def read_instructions(bytecode: bytes) -> Iterator[RawInstruction]:
    """Yield the real instructions of `co_code`, without caches and EXTENDED_ARG."""
    high = 0
    offset = 0
    while offset < len(bytecode):
        number, arg = bytecode[offset], bytecode[offset + 1] | high
        following = offset + 2
        if number == EXTENDED_ARG:
            high = arg << 8
        else:
            while following < len(bytecode) and bytecode[following] == CACHE:
                following += 2
            yield RawInstruction(dis.opname[number], arg, offset, following)
            high = 0
        offset = following


def _instruction_at(instructions: list[Instruction], offset: int) -> Instruction:
    """Return the first instruction at or behind a byte offset (maybe of an EXTENDED_ARG)."""
    index = bisect_left(instructions, offset, key=lambda instruction: instruction.offset)
    if index == len(instructions):
        raise BytecodeError(f"offset {offset} lies behind the last instruction")
    return instructions[index]


def _resolve_handlers(code: CodeType, instructions: list[Instruction]) -> None:
    for entry in parse_exception_table(code.co_exceptiontable):
        target = _instruction_at(instructions, 2 * entry.target)
        handler = ExceptionHandler(target, entry.depth, entry.lasti)
        start = bisect_left(instructions, 2 * entry.start, key=lambda i: i.offset)
        for instruction in instructions[start:]:
            if instruction.offset >= 2 * entry.end:
                break
            instruction.handler = handler
