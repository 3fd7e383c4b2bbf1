"""Events of the trie: a call without its values and without the numbers that may vary.

event ::= operator argument* (name argument)* remark*
argument ::= %i | <int> | <float> | LIST argument* END | (type, literal) | (type, text)
remark ::= (word, anything)          tells apart events whose arguments are equal

The text of a float or complex number stands for it: -0.0 equals 0.0, and a NaN equals nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from minitorch2.lazy.trie import Event
from minitorch2.lazy.value import Ref


class Hole:
    """A number that may vary; the type is part of the event: 2 is not 2.0."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __repr__(self) -> str:
        return f"<{self.kind}>"


INT: Final = Hole("int")
FLOAT: Final = Hole("float")
END: Final = object()
"""Ends a list: nested lists are written out flat, since one flat tuple is hashed fastest."""
LIST: Final = object()


def arguments_of(event: Event) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return an event's arguments, with references for values and holes for numbers."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    items = iter(event[1:])
    for item in items:
        if type(item) is str:
            kwargs[item] = _read(next(items), items)
        elif not (type(item) is tuple and type(item[0]) is str):  # a remark such as an offset
            args.append(_read(item, items))
    return tuple(args), kwargs


def _read(item: Any, items: Iterator[Any]) -> Any:
    if item is LIST:
        return [_read(part, items) for part in iter(items.__next__, END)]
    if type(item) is not tuple:
        return item
    kind, value = item
    return kind(value) if kind in (float, complex) else value


def fill(template: Any, values: Any, numbers: Any) -> Any:
    """Return an argument: ``values[i]`` for references, the next of `numbers` for holes."""
    if type(template) is Ref:
        return values[template.index]
    if type(template) is Hole:
        return next(numbers)
    if type(template) is list:
        return [fill(item, values, numbers) for item in template]
    return template
