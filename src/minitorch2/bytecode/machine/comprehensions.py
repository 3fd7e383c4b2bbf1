"""Inlined comprehensions (PEP 709, CPython 3.12): variables of one name that share a local slot.

A comprehension that runs in the frame of its function may have a variable named like one of the
function's. It puts the outer one aside on the stack, uses its slot, and puts it back at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, takewhile

from minitorch2.bytecode.machine.instruction import Instruction

PUTS_ASIDE = frozenset({"LOAD_FAST_AND_CLEAR", "MAKE_CELL", "SWAP", "STORE_FAST"})
"""The instructions by which an inlined comprehension saves and restores variables."""


def shadowed_cells(
    instructions: Sequence[Instruction], index: int, cells: Iterable[str]
) -> frozenset[str]:
    """Return the function's own cells whose slots a comprehension uses at this instruction.

    The comprehension keeps the cells on the stack meanwhile. Its clean-up for exceptions puts them
    back, which gives it away: a plain store to a variable with a cell occurs nowhere else. A few
    instructions around it that cannot raise belong to it.
    """
    first = last = index
    while instructions[first].opname in PUTS_ASIDE and first > 0:
        first -= 1
    while instructions[last].opname in PUTS_ASIDE:
        last += 1
    restored = (_restored_by_cleanup(instructions, at) for at in range(first, last + 1))
    return frozenset(cells).intersection(chain.from_iterable(restored))


def _restored_by_cleanup(instructions: Sequence[Instruction], index: int) -> Iterator[str]:
    """Yield the variables that exception handlers of comprehensions around an instruction store."""
    handler = instructions[index].handler
    while handler is not None:
        cleanup = takewhile(
            lambda one: one.opname not in ("RERAISE", "PUSH_EXC_INFO"),
            instructions[instructions.index(handler.target) :],
        )
        yield from (one.argval for one in cleanup if one.opname == "STORE_FAST")
        handler = handler.target.handler
