"""Guards on one value: its identity, its type, or what it equals."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import BuiltinFunctionType, ModuleType
from typing import TYPE_CHECKING

import torch

from minitorch2.bytecode.guards.guard import Address, Check, Guard, Name, SourceGuard, Test
from minitorch2.bytecode.machine.guard_machine import Op
from minitorch2.bytecode.sources import Source

if TYPE_CHECKING:
    from minitorch2.graph.node import SourceLine


def is_permanent(value: object) -> bool:
    """Whether an object may be held strongly by a guard, as it lives as long as the process."""
    return isinstance(value, ModuleType | BuiltinFunctionType | torch.dtype) or (
        isinstance(value, type) and not value.__flags__ & _HEAP_TYPE
    )


_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: classes made by Python code, which can die


@dataclass(frozen=True)
class IdMatch(SourceGuard):
    """The very same object (slides: FUNCTION_MATCH for functions and modules).

    The object is held weakly where that is possible, so that guards keep nothing alive.
    """

    identity: int
    held: Callable[[], object] = field(compare=False, repr=False)

    @property
    def kind(self) -> str:
        """FUNCTION_MATCH for callables and Python modules, ID_MATCH for other objects."""
        value = self.held()
        functional = callable(value) or isinstance(value, ModuleType)
        return "FUNCTION_MATCH" if functional else "ID_MATCH"

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        value = self.held()
        weak = isinstance(self.held, weakref.ref)
        condition = f"{name(id)}({path}) == {self.identity}" if weak else f"{path} is {name(value)}"
        yield Check("identity", condition, path, _short(value))

    def tests(self) -> Sequence[Test]:
        weak = isinstance(self.held, weakref.ref)
        return (Test(Op.IS, Address(self.identity) if weak else self.held()),)

    def watched(self) -> object | None:
        return self.held() if isinstance(self.held, weakref.ref) else None


def id_match(source: Source, value: object, user_line: SourceLine | None = None) -> IdMatch:
    """The guard that `source` still loads this very object."""
    held: Callable[[], object] = lambda: value  # noqa: E731
    if not is_permanent(value) and type(value).__weakrefoffset__:
        held = weakref.ref(value)
    return IdMatch(source, id(value), held, user_line=user_line)


@dataclass(frozen=True)
class TypeMatch(SourceGuard):
    """Exactly this class, subclasses excluded."""

    KIND = "TYPE_MATCH"
    cls: type

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        actual = f"{name(type)}({path})"
        yield Check("type", f"{actual} is {name(self.cls)}", actual, str(self.cls))

    def tests(self) -> Sequence[Test]:
        return (Test(Op.CLASS, self.cls),)


@dataclass(frozen=True)
class ConstantMatch(SourceGuard):
    """The same type and the same value, told apart as `repr` tells floats apart."""

    KIND = "CONSTANT_MATCH"
    cls: type
    shown: str
    value: object = field(compare=False, repr=False)

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        yield Check("constant", _constant_condition(path, self.value, name), path, self.shown)

    def tests(self) -> Sequence[Test] | None:
        if _is_single(self.value):
            return (Test(Op.IS, self.value),)
        return (Test(Op.EQUAL, self.value),) if _is_plain(self.value) else None


def constant_match(source: Source, value: object, user_line: SourceLine | None = None) -> Guard:
    """The guard that `source` still loads a value equal to this constant."""
    if value is None:
        return NoneMatch(source, user_line=user_line)
    return ConstantMatch(source, type(value), repr(value), value, user_line=user_line)


def _constant_condition(path: str, value: object, name: Name) -> str:
    if _is_single(value):
        return f"{path} is {name(value)}"
    same_type = f"{name(type)}({path}) is {name(type(value))}"
    if not _is_plain(value):
        return f"{same_type} and {name(repr)}({path}) == {repr(value)!r}"
    return f"{same_type} and {path} == {name(value)}"


def _is_single(value: object) -> bool:
    """Whether there is one object of this value."""
    return isinstance(value, bool | torch.dtype | torch.layout) or value is Ellipsis


def _is_plain(value: object) -> bool:
    """Whether ``==`` tells the value from all others of its type: not so for zeros, NaN and complex
    parts."""
    if isinstance(value, float):
        return value != 0 and not math.isnan(value)
    return not isinstance(value, complex)


@dataclass(frozen=True)
class NoneMatch(SourceGuard):
    """The value is None."""

    KIND = "NONE_MATCH"

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        yield Check("None", f"{path} is None", path, "None")

    def tests(self) -> Sequence[Test]:
        return (Test(Op.IS, None),)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
