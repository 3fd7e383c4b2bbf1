"""Liveness: the local variables that the rest of a function may still read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import CodeType

from minitorch2.bytecode.machine.comprehensions import shadowed_cells
from minitorch2.bytecode.machine.instruction import Instruction

READS = frozenset({"LOAD_FAST", "LOAD_FAST_AND_CLEAR", "DELETE_FAST"})
"""Deleting counts as reading, because it fails if the variable is not bound."""
ENDS_LIFE = frozenset({"STORE_FAST", "LOAD_FAST_AND_CLEAR", "DELETE_FAST"})
USES_CELL = frozenset({"LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", "LOAD_CLOSURE"})
"""Storing uses a cell too: another function may have captured it before."""
READS_FRAME = frozenset(
    {
        *("locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe"),
        *("breakpoint", "set_trace"),
    }
)
"""Functions that can see all variables of their caller: builtins, those of `sys`, `inspect`, and
debuggers."""

LOADS_BY_NAME = frozenset({"LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD"})

NOTHING: frozenset[str] = frozenset()


def live_names(
    instructions: Sequence[Instruction], index: int, code: CodeType | None = None
) -> tuple[str, ...]:
    """Return the variables that must be carried along to go on at `instructions[index]`, sorted.

    Plain locals whose value may be read, and the function's own cells that may be used; free
    variables are not among them. A live variable need not be bound. Exceptions are followed into
    handlers.

    Args:
        instructions: the whole function.
        index: the instruction at which it goes on.
        code: the code object of the instructions; with it, the variables that `locals()` and
            `super()` without arguments read behind the program's back count as well.
    """
    return tuple(sorted(live_sets(instructions, code)[index]))


def live_sets(
    instructions: Sequence[Instruction], code: CodeType | None = None
) -> list[frozenset[str]]:
    """Return the live variables before each instruction: the least backward fixed point."""
    order = {instruction: index for index, instruction in enumerate(instructions)}
    edges = [[order[to] for to in successors(instructions, i)] for i in range(len(instructions))]
    cells = frozenset(i.argval for i in instructions if i.opname == "MAKE_CELL")
    used = list(_used_names(instructions, cells, code))
    live = [NOTHING] * len(instructions)
    changed = True
    while changed:
        changed = False
        for index in reversed(range(len(instructions))):
            after = NOTHING.union(*(live[to] for to in edges[index]))
            instruction = instructions[index]
            if instruction.opname in ENDS_LIFE and instruction.argval not in cells:
                after -= {instruction.argval}
            if instruction.handler is not None:
                after |= live[order[instruction.handler.target]]
            before = used[index] | after
            changed |= before != live[index]
            live[index] = before
    return live


def successors(instructions: Sequence[Instruction], index: int) -> Iterator[Instruction]:
    """Yield the instructions that may follow one that does not raise."""
    instruction = instructions[index]
    if instruction.target is not None:
        yield instruction.target
    if instruction.falls_through and index + 1 < len(instructions):
        yield instructions[index + 1]


def reachable(instructions: Sequence[Instruction], index: int) -> set[Instruction]:
    """Return the instructions that may run from `instructions[index]` on, that one included."""
    order = {instruction: position for position, instruction in enumerate(instructions)}
    found: set[Instruction] = set()
    waiting = [instructions[index]]
    while waiting:
        instruction = waiting.pop()
        if instruction in found:
            continue
        found.add(instruction)
        waiting += successors(instructions, order[instruction])
        if instruction.handler is not None:
            waiting.append(instruction.handler.target)
    return found


def _used_names(
    instructions: Sequence[Instruction], cells: frozenset[str], code: CodeType | None
) -> Iterator[frozenset[str]]:
    """Yield the variables that each instruction reads.

    A comprehension may use the slot of a cell that it has put aside: that does not concern the
    cell.
    """
    hidden = _hidden_reads(instructions, cells, code)
    for index, instruction in enumerate(instructions):
        opname, argval = instruction.opname, instruction.argval
        if opname in READS and argval not in cells:
            yield frozenset({argval})
        elif opname in USES_CELL and argval in cells:
            yield frozenset({argval}) - shadowed_cells(instructions, index, cells)
        else:
            yield hidden.get(argval, NOTHING) if opname in LOADS_BY_NAME else NOTHING


def _hidden_reads(
    instructions: Sequence[Instruction], cells: frozenset[str], code: CodeType | None
) -> Mapping[str, frozenset[str]]:
    """Return the variables that builtins which look at their caller's frame read, by builtin."""
    parameters = () if code is None else code.co_varnames[: code.co_argcount]
    mentioned = (i.argval for i in instructions if i.opname in READS | ENDS_LIFE)
    locals_ = () if code is None else code.co_varnames
    everything = cells.union(mentioned, locals_)
    uses_class = code is not None and "__class__" in code.co_freevars
    hidden = dict.fromkeys(READS_FRAME, everything)
    return hidden | {"super": frozenset(parameters[:1]) if uses_class else NOTHING}
