"""Continuation functions: the rest of a function, from one of its instructions on.

A continuation of `f` at an instruction takes the state that the rest of `f` needs, rebuilds the
value stack and jumps to the instruction. Behind that prefix stands the rest of the original body::

    __resume_at_30_1(stack items..., live variables..., cells...):
        put the cells into their slots
        push the stack items                    NULLs and exception states where the caller says so
        JUMP 30
        the original body, without what cannot be reached any more

Source: PyTorch 2 paper, section 3.8 (Graph breaks and continuation functions).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from inspect import CO_OPTIMIZED
from types import CodeType

from minitorch2.bytecode.machine.assemble import assemble
from minitorch2.bytecode.machine.comprehensions import shadowed_cells
from minitorch2.bytecode.machine.errors import ContinuationError
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.machine.liveness import reachable
from minitorch2.bytecode.machine.per_code import once_per_code
from minitorch2.bytecode.machine.program import Program, program_of
from minitorch2.native.cpython.suspendable import SUSPENDABLE


@once_per_code
def variable_names(code: CodeType) -> tuple[str, ...]:
    """Return the variables of a function in the order of their slots.

    For a continuation, the order is that of the whole function.
    """
    return tuple(dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars)))


CELL = ".cell_"
"""The prefix of a parameter that brings a cell; like CPython's `.0`, no program can use it."""


def make_continuation(
    code: CodeType,
    index: int,
    live: Sequence[str],
    stack: int = 0,
    null_slots: Collection[int] = (),
    *,
    exception_slots: Collection[int] = (),
    previous_slots: Collection[int] = (),
    number: int = 1,
) -> CodeType:
    """Make the code of a function that goes on at an instruction of `code`; note its program.

    Its parameters are positional. First come the stack items from the bottom up, without those that
    the prefix makes itself, then the live plain locals in the order of `live`. If the rest may call
    `super()` without arguments, the function's own first parameter comes before them. The order is
    always that of `co_varnames`, where stack item i is named `.stack<i>`. Live variables that are
    left out are unbound.

    The live ones of the function's own cells come last, `.cell_<name>` each: the cells themselves,
    so that other functions that captured them keep seeing each assignment. Own cells that are not
    live are made anew. Free variables stay free variables.

    A region of the exception table that covers the instruction covers it in the continuation, too.
    The continuation of a generator or coroutine is one again: it goes on when it is first resumed.

    Args:
        code: the original function's code.
        index: the instruction of `program_of(code)` to go on at; behind the prologue (RESUME).
        live: bound variables that the rest needs, usually of `live_names`.
        stack: number of items on the value stack.
        null_slots: the slots of items that are NULL.
        exception_slots: the slots of exceptions being handled (PUSH_EXC_INFO). The item
            below each is the exception that was handled before, which the prefix finds itself. The
            number that some handlers keep below that (`lasti`) is an ordinary item; 0 will do.
        previous_slots: the slots of the exception handled before one that is being handled
            and is not on the stack (any more). The argument is that exception, `.handled<slot>`.
        number: makes the name `__resume_at_<offset>_<number>` unique.

    Raises:
        ContinuationError: class bodies and modules, an instruction in the prologue, a `super()`
            without arguments that could no longer find its object, or the middle of an inlined
            comprehension with a variable named like a cell.
    """
    instructions = program_of(code).instructions
    _check(code, instructions, index)
    rest = reachable(instructions, index)
    body = [instruction for instruction in instructions if instruction in rest]
    cells = [name for name in code.co_cellvars if name in live]
    pushed = [slot for slot in range(stack) if slot not in {s - 1 for s in exception_slots}]
    stack_items = _Items(null_slots, exception_slots, previous_slots)
    items = [stack_items.name(slot) for slot in pushed if slot not in null_slots]
    plain = [name for name in live if _is_plain(code, name)]
    arguments = _super_first(code, body, [*items, *plain, *map(CELL.__add__, cells)])
    prefix = _prefix(code, instructions[index], body, cells, pushed, stack_items)
    continued = [*prefix, *body]
    others = [name for name in code.co_varnames if name not in arguments]
    made = assemble(
        continued,
        code,
        name=f"__resume_at_{instructions[index].offset}_{number}",
        argnames=arguments,
        varnames=[*arguments, *others],
    )
    program_of.note(made, Program(continued))
    return made


def _check(code: CodeType, instructions: Sequence[Instruction], index: int) -> None:
    """Raise an error if no continuation can start at the instruction."""
    if not code.co_flags & CO_OPTIMIZED:
        raise ContinuationError("only functions keep their variables in slots")
    if all(instruction.opname != "RESUME" for instruction in instructions[:index]):
        raise ContinuationError("the function has not started at this instruction")
    if shadowed := shadowed_cells(instructions, index, code.co_cellvars):
        raise ContinuationError(f"a comprehension has put cells aside here: {sorted(shadowed)}")


def _is_plain(code: CodeType, name: str) -> bool:
    return name in code.co_varnames and name not in code.co_cellvars


@dataclass(frozen=True)
class _Items:
    """The special stack items of a continuation: see `make_continuation`."""

    null_slots: Collection[int]
    exception_slots: Collection[int]
    previous_slots: Collection[int]

    def name(self, slot: int) -> str:
        """Return the parameter of a stack item; like CPython's `.0`, no program can use it."""
        return f".handled{slot}" if slot in self.previous_slots else f".stack{slot}"

    def after(self, slot: int) -> Sequence[str]:
        """Return the instructions that turn the pushed argument into the stack item."""
        if slot in self.previous_slots:
            return ("PUSH_EXC_INFO", "POP_TOP")
        return ("PUSH_EXC_INFO",) if slot in self.exception_slots else ()


def _super_first(code: CodeType, body: Sequence[Instruction], arguments: list[str]) -> list[str]:
    """Put the object of a `super()` first, where `super()` looks for it."""
    calls_super = any(i.opname == "LOAD_GLOBAL" and i.argval == "super" for i in body)
    if not calls_super or "__class__" not in code.co_freevars or not code.co_argcount:
        return arguments
    first = code.co_varnames[0]
    if first not in arguments:
        raise ContinuationError(f"super() needs {first!r} as a plain local variable")
    return [first, *(name for name in arguments if name != first)]


def _prefix(
    code: CodeType,
    target: Instruction,
    body: Sequence[Instruction],
    cells: Sequence[str],
    pushed: Sequence[int],
    items: _Items,
) -> Iterator[Instruction]:
    """Yield everything in front of the original body, on the line of the resumed instruction."""

    def make(opname: str, argval: object = None) -> Instruction:
        return Instruction(opname, argval, positions=target.positions)

    if code.co_freevars:
        yield make("COPY_FREE_VARS", len(code.co_freevars))
    for name in code.co_cellvars:
        yield make("MAKE_CELL", name)
    if code.co_flags & SUSPENDABLE:
        yield make("RETURN_GENERATOR")
        yield make("POP_TOP")
    yield make("RESUME", 0)
    for name in cells:
        yield make("LOAD_FAST", CELL + name)
        yield make("DELETE_FAST", CELL + name)
        yield make("STORE_FAST", name)  # debuggers look for its MAKE_CELL
    for slot in pushed:
        if slot in items.null_slots:
            yield make("PUSH_NULL")
            continue
        yield make("LOAD_FAST", items.name(slot))
        yield make("DELETE_FAST", items.name(slot))  # neither kept alive nor seen by locals()
        yield from map(make, items.after(slot))
    if target is not body[0]:
        yield Instruction("JUMP", target=target, positions=target.positions)
