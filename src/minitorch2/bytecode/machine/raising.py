"""The instructions that always lead to a ``raise``: the body of ``if wrong: raise ...``."""

from __future__ import annotations

from collections.abc import Sequence

from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.machine.liveness import successors


def always_raises(instructions: Sequence[Instruction], index: int) -> bool:
    """Tell whether every path from an instruction ends in a ``raise``, without a loop.

    Args:
        instructions: the whole function.
        index: the instruction that comes next.
    """
    order = {instruction: place for place, instruction in enumerate(instructions)}
    todo, seen = [index], set[int]()
    while todo:
        place = todo.pop()
        if place in seen:
            continue
        seen.add(place)
        if instructions[place].opname in ("RAISE_VARARGS", "RERAISE"):
            continue
        following = [order[to] for to in successors(instructions, place)]
        if not following or any(to <= place for to in following):
            return False  # it returns, or it may go round for ever
        todo += following
    return True
