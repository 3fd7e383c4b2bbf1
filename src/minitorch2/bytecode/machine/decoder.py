"""The state of one disassembly, which the rules of a version table read and write."""

from __future__ import annotations

import dis
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

from minitorch2.bytecode.machine.errors import BytecodeError
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.machine.slots import Slots

HAS_ARGUMENT = frozenset(getattr(dis, "hasarg", range(dis.HAVE_ARGUMENT, 256)))
"""Opcode numbers of the running interpreter that have an argument."""


@dataclass(frozen=True, slots=True)
class RawInstruction:
    """A real instruction: argument with its EXTENDED_ARGs folded in, caches skipped.

    Attributes:
        opname: CPython's opcode.
        arg: its raw argument, 0 if it has none.
        offset: byte offset of the opcode itself.
        following: byte offset behind it and its caches; jumps count from there.
    """

    opname: str
    arg: int
    offset: int
    following: int

    @property
    def jump_offset(self) -> int:
        """Byte offset of the jump's target."""
        distance = 2 * self.arg
        return self.following + (-distance if "BACKWARD" in self.opname else distance)


class Decoder:
    """Collects the canonical instructions of one code object while its raw ones are read in order.

    Attributes:
        instructions: the canonical instructions that were decoded so far.
        jumps: for each jump, the byte offset of its target.
        keyword_names: names that the next CALL passes by keyword (3.11, 3.12: set by KW_NAMES).
        skip_next: whether a rule has already taken care of the next raw instruction.
    """

    def __init__(self, code: CodeType) -> None:
        self.constants = code.co_consts
        self.names = code.co_names
        self.slots = Slots.of(code)
        self.instructions: list[Instruction] = []
        self.jumps: dict[Instruction, int] = {}
        self.keyword_names: tuple[str, ...] = ()
        self.skip_next = False
        self._positions = list(code.co_positions())
        self._offset = 0

    def start(self, raw: RawInstruction) -> None:
        """Say which raw instruction the next canonical ones come from."""
        self._offset = raw.offset

    def emit(self, opname: str, argval: Any = None) -> Instruction:
        """Append a canonical instruction at the current place."""
        positions = dis.Positions(*self._positions[self._offset // 2])
        instruction = Instruction(opname, argval, positions=positions, offset=self._offset)
        self.instructions.append(instruction)
        return instruction

    def emit_jump(self, opname: str, offset: int) -> None:
        """Append a jump to a byte offset."""
        self.jumps[self.emit(opname)] = offset

    def take_last(self, opname: str) -> Instruction:
        """Remove and return the last instruction, which a merge of two opcodes expects."""
        if not self.instructions or self.instructions[-1].opname != opname:
            raise BytecodeError(f"expected {opname} before this instruction")
        return self.instructions.pop()

    def fast_name(self, index: int) -> str:
        """Return the variable that an opcode of the LOAD_FAST family means."""
        return self._checked_name(index, self.slots.fast)

    def cell_name(self, index: int) -> str:
        """Return the variable that an opcode of the LOAD_DEREF family means."""
        return self._checked_name(index, self.slots.deref)

    def _checked_name(self, index: int, slot_of: Callable[[str], int]) -> str:
        name = self.slots.names[index]
        if slot_of(name) != index:
            raise BytecodeError(f"the name {name!r} of slot {index} is ambiguous")
        return name


DecodeRule = Callable[[Decoder, RawInstruction], None]


def decode_by_family(decoder: Decoder, raw: RawInstruction) -> None:
    """Decode an opcode without a rule of its own: `dis` knows what the argument refers to."""
    number = dis.opmap[raw.opname]
    if number in dis.hasjrel:
        decoder.emit_jump(raw.opname, raw.jump_offset)
    elif number in dis.hasconst:
        decoder.emit(raw.opname, decoder.constants[raw.arg])
    elif number in dis.hasname:
        decoder.emit(raw.opname, decoder.names[raw.arg])
    elif number in dis.haslocal:
        decoder.emit(raw.opname, decoder.fast_name(raw.arg))
    elif number in dis.hasfree:
        decoder.emit(raw.opname, decoder.cell_name(raw.arg))
    else:
        decoder.emit(raw.opname, raw.arg if number in HAS_ARGUMENT else None)
