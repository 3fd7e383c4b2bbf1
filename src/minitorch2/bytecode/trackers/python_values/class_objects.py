"""Real classes, made without the hooks that a program defines.

Captured code calls ``__set_name__`` and ``__init_subclass__`` where its own trackers are; the class
that stands in while capturing, and the one that residual code makes, come without these calls.
"""

from __future__ import annotations

import abc
import types
from collections.abc import Mapping
from enum import EnumType
from typing import Any

from torch.autograd.function import FunctionMeta

from minitorch2.bytecode.trackers.descriptors import class_lookup, is_of_trusted
from minitorch2.native.cpython.library import init_abstract_class


class Silent:
    """A first base class whose hook does nothing; it is taken out of the bases again."""

    def __init_subclass__(cls, **options: object) -> None:
        """Hide the hooks of the other base classes."""


def calls_hook(cls: type, name: str) -> bool:
    """Return whether a class has a hook that is a program's, not a library's."""
    found_in, method = class_lookup(cls, name)
    is_python = isinstance(method, types.FunctionType | classmethod | staticmethod)
    return is_python and not is_of_trusted(found_in)


def new_class(
    metaclass: type, name: str, bases: tuple[Any, ...], namespace: Mapping[str, object]
) -> type:
    """``type.__new__(metaclass, name, bases, namespace)`` without hooks of a program.

    Raises:
        TypeError: CPython's, if there is no such class.
    """
    if EnumType in metaclass.__mro__:
        entries: Any = EnumType.__prepare__(name, bases)
        for key, entry in namespace.items():
            entries[key] = entry
        made: Any = EnumType.__new__(metaclass, name, bases, entries)
        return made  # type: ignore[no-any-return]
    late = {key: v for key, v in namespace.items() if calls_hook(type(v), "__set_name__")}
    silent = any(calls_hook(base, "__init_subclass__") for base in bases)
    first = (Silent, *bases) if silent else bases
    cls: type = type.__new__(metaclass, name, first, {**namespace, **dict.fromkeys(late)})
    if silent:
        cls.__bases__ = bases
    for key, hooked in late.items():
        type.__setattr__(cls, key, hooked)
    if isinstance(cls, abc.ABCMeta):
        init_abstract_class(cls)
    if isinstance(cls, FunctionMeta):
        FunctionMeta.__init__(cls, name, bases, {})  # type: ignore[no-untyped-call]
    return cls
