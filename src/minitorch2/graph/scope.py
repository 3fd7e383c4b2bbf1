"""The namer of generated text: it gives each name once, and never a name that is in use.

A generated text has words of its own (``call``, ``arena``) and reads names that Python and modules
define (``max``, ``torch``). The user's program may contain any of these names, too. So the `Scope`
of a text, which knows all of its names, chooses each name in it.

>>> names = Scope({"call"})
>>> names.fresh("x"), names.fresh("x"), names.fresh("call"), names.fresh("len")
('x', 'x_1', 'call_1', 'len_1')
"""

from __future__ import annotations

import builtins
import dis
import keyword
from collections.abc import Container, Iterable, Mapping
from types import CodeType
from typing import Final
from unicodedata import normalize

PYTHON: Final = frozenset((*keyword.kwlist, *dir(builtins)))
"""Names that mean something in every text."""


class Scope:
    """The names of one text.

    Args:
        taken: names that are not given, besides those of Python. A container is asked when a name
            is, so it may grow in the meantime.
    """

    def __init__(self, *taken: Container[str]) -> None:
        self._taken = (PYTHON, *taken)
        self._numbers: dict[str, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._numbers or any(name in names for names in self._taken)

    def fresh(self, wish: str) -> str:
        """Return a name that is not in use, and reserve it: the wish, or ``wish_1``..."""
        base = name = identifier(wish)
        number = self._numbers.get(base, 0)
        while name in self:
            number += 1
            name = f"{base}_{number}"
        self._numbers[base] = number
        self._numbers.setdefault(name, 0)
        return name


def identifier(text: str) -> str:
    """Turn a text into a name: ``blocks.0`` -> ``blocks_0``."""
    text = normalize("NFKC", text)
    name = "".join(c if f"_{c}".isidentifier() else "_" for c in text)
    return name if name.isidentifier() else f"_{name}"


def is_name(text: str) -> bool:
    """Return whether Python reads a text as one name, without changing its spelling."""
    is_plain = text.isidentifier() and not keyword.iskeyword(text)
    return is_plain and normalize("NFKC", text) == text


def member(owner: str, name: str) -> str:
    """Return an object's attribute as text: ``owner.name``, or ``getattr`` for other names."""
    return f"{owner}.{name}" if is_name(name) else f"getattr({owner}, {name!r})"


def loaded_globals(code: CodeType) -> set[str]:
    """Return names that code, and code inside of it, looks up as globals or builtins."""
    loads = {each.argval for each in dis.get_instructions(code) if each.opname in _LOADS}
    return loads.union(*(loaded_globals(c) for c in code.co_consts if isinstance(c, CodeType)))


_LOADS = ("LOAD_GLOBAL", "LOAD_NAME")


def assigned(owner: str, name: str, value: str) -> str:
    """Return the statement that assigns an attribute of an object."""
    is_plain = is_name(name)
    return f"{owner}.{name} = {value}" if is_plain else f"setattr({owner}, {name!r}, {value})"


def path(root: str, names: Iterable[str]) -> str:
    """Return an attribute of an attribute... of an object."""
    for name in names:
        root = member(root, name)
    return root


def keywords(values: Mapping[str, str]) -> list[str]:
    """Return keyword arguments as text: ``key=text``, or ``**{'from': text}`` for keywords."""
    plain = [f"{key}={text}" for key, text in values.items() if _is_keyword(key)]
    others = [f"{key!r}: {text}" for key, text in values.items() if not _is_keyword(key)]
    return [*plain, f"**{{{', '.join(others)}}}"] if others else plain


def _is_keyword(text: str) -> bool:
    return is_name(text) and text != "__debug__"
