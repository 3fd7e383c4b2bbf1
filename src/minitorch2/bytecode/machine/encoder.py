"""The state of one assembly, which the rules of a version table read and write."""

from __future__ import annotations

import dis
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType

from minitorch2.bytecode.machine.errors import BytecodeError
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.machine.slots import Slots


@dataclass(frozen=True, slots=True)
class LoopExit:
    """The place just before `target` where a version's FOR_ITER lands (its END_FOR)."""

    target: Instruction


JumpTarget = Instruction | LoopExit


@dataclass(frozen=True, slots=True)
class Unit:
    """A real instruction before layout.

    Attributes:
        opname: CPython's opcode.
        arg: its argument; for a jump, filled in by the layout.
        target: the target of a jump.
        origin: the canonical instruction it belongs to (its positions and handler).
    """

    opname: str
    arg: int
    target: JumpTarget | None
    origin: Instruction


class Encoder:
    """Collects the real instructions of one code object.

    Attributes:
        units: the real instructions that were encoded so far.
        labels: for each jump target, the index of its first unit.
        constants, names: the pools; those of the model code object come first, so indices stay
            small and the docstring stays in place.
    """

    def __init__(self, like: CodeType, slots: Slots, order: dict[Instruction, int]) -> None:
        self.slots = slots
        self.units: list[Unit] = []
        self.labels: dict[JumpTarget, int] = {}
        self.constants: list[object] = list(like.co_consts)
        self.names: list[str] = list(like.co_names)
        self._order = order
        self._constant_index = {id(value): i for i, value in enumerate(self.constants)}
        self._name_index = {name: i for i, name in enumerate(self.names)}

    def start(self, label: JumpTarget, origin: Instruction) -> None:
        """Mark where a jump target begins, and the instruction to which the next units belong."""
        self.labels[label] = len(self.units)
        self._origin = origin

    def emit(self, opname: str, arg: int = 0) -> None:
        """Append a real instruction."""
        self.units.append(Unit(opname, arg, None, self._origin))

    def emit_jump(self, opname: str, target: JumpTarget | None) -> None:
        """Append a real jump; raise BytecodeError if it has no target."""
        if target is None:
            raise BytecodeError(f"{opname} has no target")
        self.units.append(Unit(opname, 0, target, self._origin))

    def jumps_back(self, instruction: Instruction) -> bool:
        """Return whether a jump goes towards the start of the list."""
        if instruction.target not in self._order:
            raise BytecodeError(f"target of {instruction!r} is not in the list")
        return self._order[instruction.target] <= self._order[instruction]

    def constant(self, value: object) -> int:
        """Return the index of a constant, found by identity (0, False and 0.0 are different)."""
        if id(value) not in self._constant_index:
            self._constant_index[id(value)] = len(self.constants)
            self.constants.append(value)
        return self._constant_index[id(value)]

    def name(self, name: str) -> int:
        """Return the index of the name of a global or an attribute."""
        if name not in self._name_index:
            self._name_index[name] = len(self.names)
            self.names.append(name)
        return self._name_index[name]


EncodeRule = Callable[[Encoder, Instruction], None]


def encode_by_family(encoder: Encoder, instruction: Instruction) -> None:
    """Encode an opcode without a rule of its own, the reverse of `decode_by_family`."""
    opname, argval = instruction.opname, instruction.argval
    number = dis.opmap.get(opname)
    if number is None or number > 255:
        raise BytecodeError(f"this Python version has no way to express {opname}")
    if number in dis.hasjrel:
        encoder.emit_jump(opname, instruction.target)
    elif number in dis.hasconst:
        encoder.emit(opname, encoder.constant(argval))
    elif number in dis.hasname:
        encoder.emit(opname, encoder.name(argval))
    elif number in dis.haslocal:
        encoder.emit(opname, encoder.slots.fast(argval))
    elif number in dis.hasfree:
        encoder.emit(opname, encoder.slots.deref(argval))
    else:
        encoder.emit(opname, 0 if argval is None else int(argval))
