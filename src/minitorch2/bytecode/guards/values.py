"""Guards on one value: its identity, its type, or its equality with a constant."""

from __future__ import annotations

import logging
import math
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType

import numpy
import torch

from minitorch2.bytecode.guards.guard import Check, Guard, SourceGuard
from minitorch2.bytecode.guards.sources import Source
from minitorch2.graph.node import SourceLine
from minitorch2.native.cpython.guard_machine import Op


def is_permanent(value: object) -> bool:
    """Return whether a guard may hold an object strongly, as it lives as long as the process."""
    return isinstance(value, ModuleType | BuiltinFunctionType | torch.dtype) or (
        isinstance(value, type) and not value.__flags__ & _HEAP_TYPE
    )


_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: classes made by Python code, which can die


@dataclass(frozen=True)
class Held:
    """An object that a guard recognizes; it is kept alive only if it cannot be held weakly.

    Attributes:
        identity: its `id`, unique as long as the compiled entry exists: the entry is dropped when
            the object dies.
        get: the object, or None if it has died.
    """

    identity: int
    get: Callable[[], object] = field(compare=False, repr=False)

    @property
    def is_weak(self) -> bool:
        """True if the object may die."""
        return isinstance(self.get, weakref.ref)


def the(value: object) -> object:
    """Return the object that a guard may hold; None if it has died."""
    return value.get() if isinstance(value, Held) else value


def keep(value: object) -> Held:
    """Hold an object strongly."""
    return Held(id(value), lambda: value)


def hold(value: object) -> Held:
    """Hold an object weakly if that is possible and makes a difference."""
    if is_permanent(value) or not type(value).__weakrefoffset__:
        return keep(value)
    return Held(id(value), weakref.ref(value))


@dataclass(frozen=True)
class IdMatch(SourceGuard):
    """The very same object (slides: FUNCTION_MATCH for functions and modules).

    Attributes:
        code: the code of a Python function, which may be given other code (as by a notebook that
            reloads an edited file).
    """

    held: Held
    code: CodeType | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        value = self.held.get()
        if isinstance(value, FunctionType):
            object.__setattr__(self, "code", value.__code__)

    @property
    def kind(self) -> str:
        """FUNCTION_MATCH for callables and Python modules, ID_MATCH for other objects."""
        value = self.held.get()
        functional = callable(value) or isinstance(value, ModuleType)
        return "FUNCTION_MATCH" if functional else "ID_MATCH"

    def checks(self) -> Iterable[Check]:
        yield Check("identity", Op.IS, self.held)
        if self.code is not None:
            yield Check("code", Op.RUNS, self.code)


def id_match(source: Source, value: object, user_line: SourceLine | None = None) -> IdMatch:
    """Return the guard that `source` still loads this very object."""
    return IdMatch(source, hold(value), user_line=user_line)


@dataclass(frozen=True)
class TypeMatch(SourceGuard):
    """Exactly this class, subclasses excluded."""

    KIND = "TYPE_MATCH"
    cls: type | Held

    def __post_init__(self) -> None:
        if not isinstance(self.cls, Held):
            object.__setattr__(self, "cls", hold(self.cls))

    @property
    def held(self) -> Held:
        """The class."""
        assert isinstance(self.cls, Held)
        return self.cls

    def checks(self) -> Iterable[Check]:
        return (Check("type", Op.CLASS, self.held),)


@dataclass(frozen=True)
class ConstantMatch(SourceGuard):
    """The same type and the same value, told apart as `repr` tells floats apart."""

    KIND = "CONSTANT_MATCH"
    cls: type
    shown: str
    value: object = field(compare=False, repr=False)

    def checks(self) -> Iterable[Check]:
        if _is_single(self.value):
            yield Check("constant", Op.IS, self.value)
        elif _is_plain(self.value):
            yield Check("constant", Op.EQUAL, self.value)
        else:
            yield Check("type", Op.CLASS, self.cls)
            yield Check("constant", Op.PYTHON, self.shown, (repr,))


def constant_match(source: Source, value: object, user_line: SourceLine | None = None) -> Guard:
    """Return the guard that `source` still loads a value equal to this constant."""
    if value is None:
        return NoneMatch(source, user_line=user_line)
    return ConstantMatch(source, type(value), repr(value), value, user_line=user_line)


def _is_single(value: object) -> bool:
    """Return whether there is one object of this value."""
    return isinstance(value, bool | torch.dtype | torch.layout) or value is Ellipsis


def _is_plain(value: object) -> bool:
    """Return whether ``==`` tells the value from all others of its type.

    It does not for zeros, NaN, complex parts, and ranges of the same numbers.
    """
    if isinstance(value, float | numpy.floating):
        return bool(value != 0) and not math.isnan(value)
    return not isinstance(value, complex | numpy.complexfloating | range)


@dataclass(frozen=True)
class NoneMatch(SourceGuard):
    """The value is None."""

    KIND = "NONE_MATCH"

    def checks(self) -> Iterable[Check]:
        return (Check("None", Op.IS, None),)


@dataclass(frozen=True)
class LoggerDisabled(SourceGuard):
    """A logger that shows no messages of a level."""

    KIND = "LOGGER_DISABLED"
    level: int

    def checks(self) -> Iterable[Check]:
        return (Check("log level is shown", Op.PYTHON, False, (shows_level, self.level)),)


def shows_level(logger: logging.Logger, level: int) -> bool:
    """Return whether a logger shows messages of a level."""
    return logger.isEnabledFor(level)
