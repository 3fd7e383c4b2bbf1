"""From canonical instructions to a code object."""

from __future__ import annotations

import dis
from collections.abc import Iterator, Sequence
from dataclasses import replace
from inspect import CO_VARARGS, CO_VARKEYWORDS
from itertools import accumulate, groupby
from types import CodeType

from minitorch2.bytecode.machine.decoder import HAS_ARGUMENT
from minitorch2.bytecode.machine.encoder import (
    Encoder,
    JumpTarget,
    LoopExit,
    Unit,
    encode_by_family,
)
from minitorch2.bytecode.machine.errors import BytecodeError
from minitorch2.bytecode.machine.instruction import ENDS_FLOW, Instruction
from minitorch2.bytecode.machine.slots import Slots
from minitorch2.bytecode.machine.versions import current_version
from minitorch2.native.cpython.library import CACHE_ENTRIES
from minitorch2.native.cpython.tables import TableEntry, print_exception_table, print_line_table

_CACHES = CACHE_ENTRIES
CACHES: dict[str, int] = (
    dict(_CACHES)
    if isinstance(_CACHES, dict)
    else {name: _CACHES[number] for name, number in dis.opmap.items() if number < 256}
)
"""Code units of inline cache behind each opcode of the running interpreter."""
DIRECTED_JUMPS = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})
"""Real opcodes of JUMP and JUMP_NO_INTERRUPT."""


def assemble(
    instructions: Sequence[Instruction],
    like: CodeType,
    *,
    name: str | None = None,
    argnames: Sequence[str] | None = None,
    varnames: Sequence[str] | None = None,
    cellvars: Sequence[str] | None = None,
    freevars: Sequence[str] | None = None,
) -> CodeType:
    """Make a code object of these instructions that is otherwise like `like`.

    Args:
        instructions: a whole body, prologue (MAKE_CELL, COPY_FREE_VARS, RESUME) included.
        like: gives file, first line, flags, constants and everything that is not said otherwise.
        name: the function's name.
        argnames: positional parameters that replace the signature of `like`; the first of
            `varnames`.
        varnames: plain locals, parameters first.
        cellvars: variables with a cell made by this function.
        freevars: variables whose cells come with the function's closure.

    Raises:
        BytecodeError: the instructions break the grammar, or this Python version has no form
            for them.
    """
    slots = Slots(
        tuple(like.co_varnames if varnames is None else varnames),
        tuple(like.co_cellvars if cellvars is None else cellvars),
        tuple(like.co_freevars if freevars is None else freevars),
    )
    encoder = encode(instructions, like, slots)
    starts, units = lay_out(encoder.units, encoder.labels)
    model = like if argnames is None else _without_parameters(like)
    return model.replace(
        co_argcount=model.co_argcount if argnames is None else len(argnames),
        co_code=b"".join(map(_unit_bytes, units)),
        co_consts=tuple(encoder.constants),
        co_names=tuple(encoder.names),
        co_varnames=slots.varnames,
        co_nlocals=len(slots.varnames),
        co_cellvars=slots.cellvars,
        co_freevars=slots.freevars,
        co_stacksize=stack_size(units, encoder.labels),
        co_linetable=print_line_table(like.co_firstlineno, _line_entries(units, starts)),
        co_exceptiontable=print_exception_table(_handler_entries(units, starts, encoder.labels)),
        co_name=name or like.co_name,
        co_qualname=name or like.co_qualname,
    )


def _without_parameters(code: CodeType) -> CodeType:
    return code.replace(
        co_argcount=0,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=code.co_flags & ~(CO_VARARGS | CO_VARKEYWORDS),
    )


# Canonical instructions to units.


def encode(instructions: Sequence[Instruction], like: CodeType, slots: Slots) -> Encoder:
    """Pick real opcodes; loops get the landing place that this version's FOR_ITER wants."""
    version = current_version()
    order = {instruction: index for index, instruction in enumerate(instructions)}
    loops = {i.target: i for i in instructions if i.opname == "FOR_ITER" and version.loop_exit}
    encoder = Encoder(like, slots, order)
    falls_through = True
    for instruction in instructions:
        encoder.start(instruction, instruction)
        if instruction in loops:
            _encode_loop_exit(encoder, loops[instruction], version.loop_exit, falls_through)
            encoder.start(instruction, instruction)
        version.encode.get(instruction.opname, encode_by_family)(encoder, instruction)
        falls_through = instruction.falls_through
    return encoder


def _encode_loop_exit(
    encoder: Encoder, loop: Instruction, opnames: tuple[str, ...], reachable: bool
) -> None:
    """Put the landing place of an exhausted loop before its target, out of the way of others."""
    assert loop.target is not None
    if reachable:
        encoder.emit_jump("JUMP_FORWARD", loop.target)
    encoder.start(LoopExit(loop.target), loop)
    for opname in opnames:
        encoder.emit(opname)


# Units to bytes.


def lay_out(units: list[Unit], labels: dict[JumpTarget, int]) -> tuple[list[int], list[Unit]]:
    """Return the start of each unit in code units (with the end of the code behind the last), and
    the units with the arguments of jumps filled in.

    A longer argument needs EXTENDED_ARGs, which move targets further away: repeat until it is
    stable. Arguments never shrink, so this ends.
    """
    widths = [_width(unit.arg) for unit in units]
    while True:
        sizes = (width + CACHES.get(u.opname, 0) for u, width in zip(units, widths, strict=True))
        starts = list(accumulate(sizes, initial=0))
        placed = [_place(unit, i, starts, labels) for i, unit in enumerate(units)]
        needed = [max(old, _width(u.arg)) for old, u in zip(widths, placed, strict=True)]
        if needed == widths:
            return starts, placed
        widths = needed


def _width(arg: int) -> int:
    """Return the code units of an opcode with this argument, EXTENDED_ARGs included."""
    return max(1, (arg.bit_length() + 7) // 8)


def _place(unit: Unit, index: int, starts: list[int], labels: dict[JumpTarget, int]) -> Unit:
    """Return the unit with the distance of its jump, which counts from the unit's end."""
    if unit.target is None:
        return unit
    if unit.target not in labels:
        raise BytecodeError(f"{unit.opname} jumps to {unit.target!r}, which is not in the list")
    distance = starts[labels[unit.target]] - starts[index + 1]
    distance = -distance if "BACKWARD" in unit.opname else distance
    if distance < 0:
        raise BytecodeError(f"{unit.opname} cannot jump in this direction")
    return replace(unit, arg=distance)


def _unit_bytes(unit: Unit) -> bytes:
    digits = unit.arg.to_bytes(_width(unit.arg), "big")
    extended = b"".join(bytes([dis.opmap["EXTENDED_ARG"], digit]) for digit in digits[:-1])
    cache = bytes(2 * CACHES.get(unit.opname, 0))
    return extended + bytes([dis.opmap[unit.opname], digits[-1]]) + cache


def _line_entries(units: list[Unit], starts: list[int]) -> Iterator[tuple[dis.Positions, int]]:
    for positions, group in groupby(enumerate(units), lambda pair: pair[1].origin.positions):
        indices = [index for index, _ in group]
        yield positions, starts[indices[-1] + 1] - starts[indices[0]]


def _handler_entries(
    units: list[Unit], starts: list[int], labels: dict[JumpTarget, int]
) -> Iterator[TableEntry]:
    for handler, group in groupby(enumerate(units), lambda pair: pair[1].origin.handler):
        if handler is not None:
            indices = [index for index, _ in group]
            target = starts[labels[handler.target]]
            start, end = starts[indices[0]], starts[indices[-1] + 1]
            yield TableEntry(start, end, target, handler.depth, handler.lasti)


# Stack depth.


def stack_size(units: list[Unit], labels: dict[JumpTarget, int]) -> int:
    """Return the greatest depth of the value stack."""
    return max(1, *stack_depths(units, labels).values())


def stack_depths(units: list[Unit], labels: dict[JumpTarget, int]) -> dict[int, int]:
    """Return the depth of the value stack before each unit that can be reached, on any path."""
    depths: dict[int, int] = {}
    waiting = [(0, 0)]
    while waiting:
        index, depth = waiting.pop()
        if depths.get(index, -1) >= depth:
            continue
        depths[index] = depth
        waiting += _successors(units[index], index, depth, labels)
    return depths


def _successors(
    unit: Unit, index: int, depth: int, labels: dict[JumpTarget, int]
) -> Iterator[tuple[int, int]]:
    """Yield the units to which control goes from a unit, with the stack depth there."""
    if unit.target is not None:
        yield labels[unit.target], depth + _stack_effect(unit, jump=True)
    if unit.opname not in ENDS_FLOW | DIRECTED_JUMPS:
        yield index + 1, depth + _stack_effect(unit, jump=False)
    if (handler := unit.origin.handler) is not None:
        yield labels[handler.target], handler.depth + handler.lasti + 1


def _stack_effect(unit: Unit, *, jump: bool) -> int:
    if unit.opname == "RETURN_GENERATOR":  # pushes the item that the POP_TOP behind it pops
        return 1
    number = dis.opmap[unit.opname]
    return dis.stack_effect(number, unit.arg if number in HAS_ARGUMENT else None, jump=jump)
