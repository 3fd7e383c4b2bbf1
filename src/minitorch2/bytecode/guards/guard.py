"""Guards as data: a guard is a frozen value with sources, and yields the checks it stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from minitorch2.bytecode.guards.sources import Source
from minitorch2.graph.node import SourceLine
from minitorch2.native.cpython.guard_machine import Op

Name = Callable[[object], str]
"""Gives an object a name that only the guard function reads. A check names so the object that it
compares with, and the builtins it calls, which the user's module may have redefined."""


@dataclass(frozen=True)
class Check:
    """One condition of a guard.

    Attributes:
        what: the property in a reader's words, such as ``"dtype"``.
        condition: Python expression, true when the property is as it was while capturing.
        actual: Python expression of the property's present value, for explanations.
        expected: the value while capturing, for explanations.
    """

    what: str
    condition: str
    actual: str
    expected: str


@dataclass(frozen=True)
class Address:
    """An object that a guard recognizes without keeping it alive."""

    identity: int


@dataclass(frozen=True)
class Test:
    """One condition of a guard as an instruction of the guard machine.

    Attributes:
        op: a check.
        operand: the object to compare with, or an `Address`; numbers as they are.
        second: another operand, for CONTAINS and STATE.
        at: the index of the guard's source that it looks at.
    """

    __test__ = False  # pytest must not take this class for a test

    op: Op
    operand: object = None
    second: object = None
    at: int = 0


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Base of all guards.

    Attributes:
        user_line: the line of the user's program that made the guard necessary.
        user_stack: the calls that led to that line, outermost first; its last element is the line.
        layer: the part of the compiler that asked for it.
    """

    KIND: ClassVar[str] = "GUARD"

    user_line: SourceLine | None = field(default=None, compare=False)
    user_stack: tuple[SourceLine, ...] = field(default=(), compare=False, repr=False)
    layer: str = field(default="capture", compare=False)

    @property
    def kind(self) -> str:
        """The name that the paper's slides and PyTorch use for this sort of guard."""
        return self.KIND

    def sources(self) -> tuple[Source, ...]:
        """Return the sources of the values it reads."""
        return ()

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        """Yield its conditions, given an expression for each of its sources."""
        raise NotImplementedError

    def tests(self) -> Sequence[Test] | None:
        """Return the same conditions as instructions; None if only Python can check them."""
        return None

    def guarded_class(self) -> type | None:
        """Return the class that its value has, if the guard says just that."""
        return None

    def watched(self) -> object | None:
        """Return an object known only by its `id`: when it dies, the entry must be dropped."""
        return None

    def __str__(self) -> str:
        return f"{self.kind} {', '.join(map(str, self.sources()))}".rstrip()


@dataclass(frozen=True)
class SourceGuard(Guard):
    """A guard on one value."""

    source: Source

    def sources(self) -> tuple[Source, ...]:
        return (self.source,)

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        return self.checks_of(paths[0], name)

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        """Yield its conditions on the value that `path` loads."""
        raise NotImplementedError
