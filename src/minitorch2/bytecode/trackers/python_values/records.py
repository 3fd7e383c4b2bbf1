"""The test of named tuples for being plain: an instance is then a tuple with names.

An instance of any other class of named tuples is an object with a tuple in it. Its class replaces
methods of tuples, or its instances have attributes of their own.
"""

from __future__ import annotations

import collections
import types
from typing import Any, Final

COLLECTIONS_FILE: Final = collections.namedtuple.__code__.co_filename
HARMLESS: Final = frozenset(["__new__", "__init_subclass__", "__class_getitem__"])
"""Special methods that do not act on an instance."""


def field_names(cls: type) -> tuple[str, ...]:
    """Return the field names of a named tuple class or of one of `torch.return_types`."""
    names: Any = getattr(cls, "_fields", None) or getattr(cls, "__match_args__", ())
    return tuple(names) if issubclass(cls, tuple) else ()


def is_record(cls: type) -> bool:
    """Return whether instances are plain tuples with names."""
    return bool(field_names(cls)) and _is_plain(cls)


def _is_plain(cls: type) -> bool:
    if cls.__dictoffset__:
        return False
    parents = cls.__mro__[: cls.__mro__.index(tuple)]
    return not any(_is_own(name, held) for p in parents for name, held in p.__dict__.items())


def _is_own(name: str, held: object) -> bool:
    """Return whether a class of named tuples has a method that changes its instances' behaviour."""
    if not isinstance(held, types.FunctionType | property) or name in HARMLESS:
        return False
    made = isinstance(held, types.FunctionType) and held.__code__.co_filename == COLLECTIONS_FILE
    acts = hasattr(tuple, name) or name.startswith("__") or name in ("_make", "_replace", "_asdict")
    return acts and not made


def field_index(descriptor: object) -> int | None:
    """Return the index of the element that a field's descriptor reads; None for other objects."""
    kind: Any = getattr(collections, "_tuplegetter")  # noqa: B009 (private)
    if not isinstance(descriptor, kind):
        return None
    reduced: Any = descriptor.__reduce__()
    index: int = reduced[1][0]
    return index
