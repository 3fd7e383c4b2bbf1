"""Runs a function up to an instruction and hands out its state: a reference for continuations.

The instruction is replaced by code that packs the value stack, the cells and `locals()` and returns
them. A NULL on the stack becomes an empty place in a tuple, which is told by its address before it
is read.
"""

import ctypes
import sys
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType

from minitorch2.bytecode.machine.assemble import assemble, encode, lay_out, stack_depths
from minitorch2.bytecode.machine.comprehensions import shadowed_cells
from minitorch2.bytecode.machine.continuation import CELL, make_continuation
from minitorch2.bytecode.machine.disassemble import disassemble
from minitorch2.bytecode.machine.instruction import ExceptionHandler, Instruction
from minitorch2.bytecode.machine.liveness import live_names, live_sets, successors
from minitorch2.bytecode.machine.slots import Slots
from tests.unit.bytecode.machine.observation import with_code

TUPLE_HEADER = 24
"""Byte offset of a tuple's first item."""
STOPPED = "a value that no program returns"


def split_points(code: CodeType) -> dict[int, int]:
    """The instructions at which a function can be stopped, with the stack depth there: those that
    can be reached, have started, and run while no exception is being handled.
    """
    instructions = disassemble(code)
    start = next(i for i, one in enumerate(instructions) if one.opname == "RESUME") + 1
    handling = exceptions_in_flight(instructions)
    encoder = encode(instructions, code, Slots.of(code))
    depths = stack_depths(lay_out(encoder.units, encoder.labels)[1], encoder.labels)
    first_units = (encoder.labels[instruction] for instruction in instructions)
    points = {i: depths.get(unit) for i, unit in enumerate(first_units)}
    live = live_sets(instructions, code)
    lent = {i.argval for i in instructions if i.opname == "LOAD_FAST_AND_CLEAR"}
    lent &= {*code.co_cellvars}  # no continuation while these are live
    return {
        i: d
        for i, d in points.items()
        if i >= start
        and handling[i] == 0
        and d is not None
        and lent.isdisjoint(live[i])
        and not shadowed_cells(instructions, i, code.co_cellvars)
    }


def exceptions_in_flight(instructions: Sequence[Instruction]) -> list[int | None]:
    """How many exceptions are handled before each instruction; None where it is not reached."""
    order = {instruction: index for index, instruction in enumerate(instructions)}
    counts: list[int | None] = [None] * len(instructions)
    waiting = [(0, 0)]
    while waiting:
        index, count = waiting.pop()
        if counts[index] is not None:
            continue
        counts[index] = count
        instruction = instructions[index]
        if instruction.handler is not None:
            waiting.append((order[instruction.handler.target], count + 1))
        count -= instruction.opname == "POP_EXCEPT"
        waiting += [(order[to], max(count, 0)) for to in successors(instructions, index)]
    return counts


def stopping(code: CodeType, index: int, depth: int) -> CodeType:
    """The code with one instruction replaced by `return (STOPPED, stack, cells, locals())`."""
    instructions = disassemble(code)
    call_locals = [Instruction("PUSH_NULL"), Instruction("LOAD_CONST", locals)]
    if sys.version_info >= (3, 13):
        call_locals.reverse()
    stop = [
        Instruction("BUILD_TUPLE", depth),
        *(Instruction("LOAD_CLOSURE", name) for name in code.co_cellvars),
        Instruction("BUILD_TUPLE", len(code.co_cellvars)),
        *call_locals,
        Instruction("CALL", (0, ())),
        Instruction("LOAD_CONST", STOPPED),
        Instruction("BUILD_TUPLE", 4),
        Instruction("RETURN_VALUE"),
    ]
    target = instructions[index]
    for instruction in instructions:
        if instruction.target is target:
            instruction.target = stop[0]
        if instruction.handler is not None and instruction.handler.target is target:
            old = instruction.handler
            instruction.handler = ExceptionHandler(stop[0], old.depth, old.lasti)
    return assemble([*instructions[:index], *stop, *instructions[index:]], code)


def in_two_steps(function: FunctionType, index: int, depth: int) -> Callable[..., object]:
    """A function that does what `function` does, but goes on in a continuation half-way."""
    code = function.__code__
    first = with_code(function, stopping(code, index, depth))
    live = live_names(disassemble(code), index, code)

    def run(*args: object) -> object:
        result = first(*args)
        if not (isinstance(result, tuple) and len(result) == 4 and result[3] is STOPPED):
            return result
        stack, cell_values, variables, _ = result
        nulls = [slot for slot in range(depth) if _is_null(stack, slot)]
        cells = dict(zip(code.co_cellvars, cell_values))
        bound = [name for name in live if name in cells or name in variables]
        rest = make_continuation(code, index, bound, depth, nulls)
        state = {f".stack{i}": stack[i] for i in range(depth) if i not in nulls} | variables
        state |= {CELL + name: cell for name, cell in cells.items()}
        resumed = FunctionType(rest, function.__globals__, None, None, function.__closure__)
        return resumed(*(state[name] for name in rest.co_varnames[: rest.co_argcount]))

    return run


def _is_null(items: tuple[object, ...], slot: int) -> bool:
    place = id(items) + TUPLE_HEADER + slot * ctypes.sizeof(ctypes.c_void_p)
    return not ctypes.c_void_p.from_address(place).value
