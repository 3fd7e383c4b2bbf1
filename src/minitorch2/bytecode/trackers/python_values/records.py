"""Named tuples: which of them are plain, so that an instance is a tuple with names.

An instance of any other class of named tuples is an object with a tuple in it: the class has
methods that take the place of a tuple's, or its instances have attributes of their own.
"""

from __future__ import annotations

import collections
import types
from typing import Any, Final

COLLECTIONS_FILE: Final = collections.namedtuple.__code__.co_filename
HARMLESS: Final = frozenset(["__new__", "__init_subclass__", "__class_getitem__"])
"""Special methods that do not act on an instance."""


def field_names(cls: type) -> tuple[str, ...]:
    """Field names of a named tuple class or of one of `torch.return_types`."""
    names: Any = getattr(cls, "_fields", None) or getattr(cls, "__match_args__", ())
    return tuple(names) if issubclass(cls, tuple) else ()


def is_record(cls: type) -> bool:
    """Whether instances are plain tuples with names."""
    return bool(field_names(cls)) and _is_plain(cls)


def _is_plain(cls: type) -> bool:
    if cls.__dictoffset__:
        return False
    parents = cls.__mro__[: cls.__mro__.index(tuple)]
    return not any(_is_own(name, held) for p in parents for name, held in p.__dict__.items())


def _is_own(name: str, held: object) -> bool:
    """Whether a class of named tuples holds a method that changes what its instances do."""
    if not isinstance(held, types.FunctionType | property) or name in HARMLESS:
        return False
    made = isinstance(held, types.FunctionType) and held.__code__.co_filename == COLLECTIONS_FILE
    acts = hasattr(tuple, name) or name.startswith("__") or name in ("_make", "_replace", "_asdict")
    return acts and not made


def field_index(descriptor: object) -> int | None:
    """Which element the descriptor of a field reads; None for all other objects."""
    kind: Any = getattr(collections, "_tuplegetter")  # noqa: B009 (private)
    if not isinstance(descriptor, kind):
        return None
    reduced: Any = descriptor.__reduce__()
    index: int = reduced[1][0]
    return index
