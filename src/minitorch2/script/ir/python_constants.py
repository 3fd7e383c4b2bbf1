"""Constants that a graph has of Python objects, and whether these have changed since.

A script reads globals, closures, attributes and elements of Python objects while it is compiled.
Each reading is kept with what it gave, so a call can tell whether the graph still holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final, TypeAlias

import torch

from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.source import SourceRange

Reader: TypeAlias = Callable[[Any, Any], Any]
"""Reads a key of an object: `getattr`, `operator.getitem`."""

CONTAINERS: Final = (list, tuple, dict, set, frozenset)
_BY_VALUE: Final = (
    int, float, complex, str, bytes, torch.dtype, torch.device, torch.layout, torch.memory_format,
    MethodType, BuiltinFunctionType, range, slice,
)  # fmt: skip
_HEAP_TYPE: Final = 1 << 9  # Py_TPFLAGS_HEAPTYPE: classes made by Python code
_LIBRARIES: Final = frozenset(("torch", "numpy", "math", "builtins", "typing", "minitorch2"))


@dataclass(frozen=True, eq=False)
class PythonConstant:
    """One reading of a Python object.

    Attributes:
        owner: the object that is read; this keeps it alive, and so its identity.
        read: how it is read.
        key: what of it is read.
        value: what that gave; of a container, a copy.
        where: the expression of the program that reads it.
    """

    owner: Any
    read: Reader
    key: Any
    value: Any
    where: SourceRange

    def error(self) -> ScriptError:
        """Return the error for a graph that no longer holds, and cannot be compiled anew."""
        try:
            became = f"is {self.read(self.owner, self.key)!r:.80}"
        except Exception:  # noqa: BLE001
            became = "cannot be read"
        before = f"`{self.where.text()}` was {self.value!r:.80} when this was compiled"
        return ScriptError(
            f"{before}, and now {became}",
            self.where,
            code="script-constant-changed",
            fix="pass it as an argument, or script, trace or freeze again",
        )


class PythonConstants:
    """The values that one graph reads of Python objects, each reading once."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, Reader, Any], PythonConstant] = {}

    def add(self, owner: Any, read: Reader, key: Any, value: Any, where: SourceRange) -> None:
        """Keep a reading, but for those of libraries whose objects do not change."""
        if isinstance(value, bool) or not _is_fixed(owner):
            self.update((PythonConstant(owner, read, key, copied(value), where),))

    def update(self, constants: Iterable[PythonConstant]) -> None:
        """Keep readings of a graph that this one calls."""
        for each in constants:
            self._found.setdefault((id(each.owner), each.read, _hashed(each.key)), each)

    def all(self) -> tuple[PythonConstant, ...]:
        """Return the readings."""
        return tuple(self._found.values())


def first_changed(constants: Iterable[PythonConstant]) -> PythonConstant | None:
    """Return the first reading that gives another result now; None if all are as they were."""
    for each in constants:
        try:
            now = each.read(each.owner, each.key)
        except Exception:  # noqa: BLE001 - code of the user's objects may raise anything
            return each
        if now is not each.value and not same(now, each.value):
            return each
    return None


def contents(owner: Any, _: Any) -> Any:
    """Read a container as a whole."""
    return owner


def copied(value: Any, outer: tuple[int, ...] = ()) -> Any:
    """Return a value with copies of the containers in it, which may change."""
    kind = type(value)
    if kind not in CONTAINERS or id(value) in outer:
        return value
    outer = (*outer, id(value))
    if kind is dict:
        return {key: copied(item, outer) for key, item in value.items()}
    return kind(value) if kind in (set, frozenset) else kind(copied(i, outer) for i in value)


def same(now: Any, then: Any) -> bool:
    """Tell whether a program cannot tell two values apart; objects of classes by identity."""
    if type(now) is not type(then):
        return False
    if isinstance(now, float):
        return repr(now) == repr(then)  # 0.0 equals -0.0, and a NaN equals nothing
    if isinstance(now, complex):
        return same(now.real, then.real) and same(now.imag, then.imag)
    if isinstance(now, _BY_VALUE):
        return bool(now == then)
    if type(now) in (list, tuple):
        return len(now) == len(then) and all(map(same, now, then))
    if type(now) is dict:
        return all(map(same, (list(now), list(now.values())), (list(then), list(then.values()))))
    return now == then if type(now) in (set, frozenset) else now is then


def _hashed(key: Any) -> Any:
    try:
        hash(key)
    except TypeError:
        return repr(key)
    return key


def _is_fixed(owner: Any) -> bool:
    """Tell whether an object is code of a library: a module, its names, a class or a function."""
    if isinstance(owner, ModuleType):
        return is_library(owner.__name__)
    is_code = isinstance(owner, type | FunctionType | BuiltinFunctionType)
    return is_code and is_of_library(owner)


def is_of_library(code: type | FunctionType | BuiltinFunctionType) -> bool:
    """Tell whether a class or function is of a library, and so does not change.

    A class is of the module `builtins`, too, if its namespace has no `__name__`.
    """
    if code.__module__ == "builtins" and isinstance(code, type | FunctionType):
        return isinstance(code, type) and not code.__flags__ & _HEAP_TYPE
    return is_library(code.__module__)


def is_library(module: str | None) -> bool:
    """Tell whether a module is of a library whose functions and classes do not change."""
    return str(module).partition(".")[0] in _LIBRARIES
