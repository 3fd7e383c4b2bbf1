"""The instructions of a code object, read once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from types import CodeType

from minitorch2.bytecode.machine.disassemble import disassemble
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.machine.per_code import once_per_code


@dataclass(frozen=True)
class Program:
    """The instructions of a code object, and the index of each.

    A continuation shares the instructions of the function that it goes on with.
    """

    instructions: Sequence[Instruction]

    @cached_property
    def positions(self) -> dict[int, int]:
        """Index of each instruction, by its identity."""
        return {id(instruction): i for i, instruction in enumerate(self.instructions)}


@once_per_code
def program_of(code: CodeType) -> Program:
    """Return the program of a code object; it is disassembled once, so nobody may edit it."""
    return Program(disassemble(code))
