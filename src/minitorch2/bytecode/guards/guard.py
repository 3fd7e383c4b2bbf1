"""Guards as data: a guard is a frozen value with sources, and yields the checks it stands for.

A check is one instruction of the guard machine. Three handlers read it: `guard_text` prints it as a
condition in Python, `guard_function` explains its failure, and `guard_program` writes the machine's
words. So a guard says what it stands for once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from minitorch2.bytecode.guards.sources import Source
from minitorch2.graph.node import SourceLine
from minitorch2.native.cpython.class_versions import SeenClass
from minitorch2.native.cpython.guard_machine import Op


@dataclass(frozen=True)
class Check:
    """One condition of a guard: a property of its values is as it was while capturing.

    Attributes:
        what: the property in a reader's words, such as ``"dtype"``.
        op: the machine's instruction, which says how the property is read and compared.
        known: the property while capturing. An object may be `Held`.
        of: the other operand. CONTAINS and EMPTY take a key, WORDS the name of a tensor's property
            or the number of a dimension, STATE a function without arguments. PYTHON takes a
            function, which is called with the guard's values, and further arguments. DISTINCT takes
            ``"storages"`` or ``"objects"``, CONTIGUOUS the rank, AGREE a `ShapeCondition`.
        unless: a class that answers for the property as long as it does not change.
    """

    what: str
    op: Op
    known: Any
    of: Any = None
    unless: SeenClass | None = None


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

    def checks(self) -> Iterable[Check]:
        """Return its conditions in the order in which they are checked."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f"{self.kind} {', '.join(map(str, self.sources()))}".rstrip()


@dataclass(frozen=True)
class SourceGuard(Guard):
    """A guard on one value."""

    source: Source

    def sources(self) -> tuple[Source, ...]:
        return (self.source,)
