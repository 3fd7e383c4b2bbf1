"""The user's expressions for values of a frame that have no name, in reports.

A continuation takes the items of the value stack as parameters, and a comprehension an iterator.
The bytecode's positions say which expression of the user's has left each of them.
"""

from __future__ import annotations

import ast
import dis
import linecache
from types import CodeType

from minitorch2.bytecode.machine.instruction import NOWHERE
from minitorch2.bytecode.machine.per_code import once_per_code

LONGEST = 60
"""The number of characters that are shown of an expression."""


@once_per_code
def unnamed_values(code: CodeType) -> dict[str, str]:
    """Return the user's expression for each parameter that no program can name."""
    if ".0" not in code.co_varnames:
        return {}
    loaded = [i.positions for i in dis.get_instructions(code) if i.argval == ".0" and i.positions]
    try:
        made = ast.parse(_text(code, loaded[0]), mode="eval").body
        return {".0": f"iter({ast.unparse(made.generators[0].iter)})"}  # type: ignore[attr-defined]
    except (IndexError, SyntaxError, AttributeError):
        return {".0": "iterator"}


def stack_expressions(code: CodeType, offset: int, depth: int) -> dict[str, str]:
    """Return the expression of each item that lies on the stack before an instruction.

    Args:
        offset: the instruction's, in bytes.
        depth: the number of items.
    """
    done = [each for each in dis.get_instructions(code) if each.offset <= offset]
    return {f".stack{slot}": _item(code, done, depth, slot) for slot in range(depth)}


def _item(code: CodeType, done: list[dis.Instruction], depth: int, slot: int) -> str:
    """Return the widest expression around the item's first part that leaves just this item.

    Statements and comprehensions around the last instruction do not count: they go on.
    """
    ends: list[dis.Positions] = []  # the last first: a wider expression ends later
    following = done[-1].positions or NOWHERE
    for each in reversed(done[:-1]):
        place = each.positions or NOWHERE
        if depth == slot + 1 and not _contains(place, following):
            ends.append(place)
        depth -= dis.stack_effect(each.opcode, each.arg, jump=False)
        if depth <= slot and each.argval == ".0":
            return unnamed_values(code)[".0"]
        if depth <= slot:
            around = (end for end in ends if _contains(end, place))
            return _short(_text(code, next(around, place)))
    return "value"


def _contains(outer: dis.Positions, inner: dis.Positions) -> bool:
    """Return whether one place contains another; false if one of them is unknown."""
    if None in (*outer, *inner):
        return False
    begins = (outer.lineno, outer.col_offset) <= (inner.lineno, inner.col_offset)
    last, inner_last = ((p.end_lineno, p.end_col_offset) for p in (outer, inner))
    return begins and inner_last <= last


def _text(code: CodeType, place: dis.Positions) -> str:
    """Return the source at a place; empty if it cannot be read."""
    if None in place or place.lineno is None or place.end_lineno is None:
        return ""
    lines = linecache.getlines(code.co_filename)[place.lineno - 1 : place.end_lineno]
    text = [line.encode() for line in lines]
    if text:
        text[-1] = text[-1][: place.end_col_offset]
        text[0] = text[0][place.col_offset :]
    return b" ".join(text).decode()


def _short(text: str) -> str:
    shown = " ".join(text.split()) or "value"
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 4] + " ..."
