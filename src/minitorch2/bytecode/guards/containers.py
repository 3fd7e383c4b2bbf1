"""Guards on the contents of a container or cell, and on the attributes that an object has."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from operator import length_hint
from types import CellType
from typing import ClassVar, Final

import numpy

from minitorch2.bytecode.guards.guard import Check, SourceGuard
from minitorch2.bytecode.guards.sources import rest_of
from minitorch2.native.cpython.guard_machine import Op


@dataclass(frozen=True)
class LengthMatch(SourceGuard):
    """A container with as many elements."""

    KIND = "LENGTH"
    length: int

    def checks(self) -> Iterable[Check]:
        return (Check("length", Op.LENGTH, self.length),)


@dataclass(frozen=True)
class Remaining(SourceGuard):
    """An iterator over a sequence or a dict with as many elements left."""

    KIND = "TUPLE_ITERATOR_LEN"
    length: int

    def checks(self) -> Iterable[Check]:
        return (Check("elements left", Op.PYTHON, self.length, (_count_left,)),)


def _count_left(iterator: Iterator[object]) -> int:
    """Return how many elements an iterator gives; the hint is 0 if its dict has another size."""
    return length_hint(rest_of(iterator))


_DECEPTIVE: Final = (float, complex, numpy.inexact, tuple)
"""Classes with objects that are equal and not alike."""


def told_apart(elements: Iterable[object]) -> list[object]:
    """Return what tells each element from those that are equal to it, such as 0.0 from -0.0."""
    return [
        repr(element) if isinstance(element, _DECEPTIVE) else type(element) for element in elements
    ]


@dataclass(frozen=True)
class ElementsMatch(SourceGuard):
    """A container with the same elements in the same order; equal ones (1, True) fail."""

    WHAT: ClassVar[str] = "elements"
    elements: tuple[Hashable, ...]

    def checks(self) -> Iterable[Check]:
        known = list(self.elements)
        yield Check(self.WHAT, Op.KEYS, known)
        if any(type(element) is not str for element in known):
            yield Check(f"classes of {self.WHAT}", Op.PYTHON, told_apart(known), (told_apart,))


class SetMatch(ElementsMatch):
    """A set with the same elements of the same types, in the same order of iteration.

    Equal sets that were filled in another order may be iterated over in another order.
    """

    KIND = "SET_CONTAINS"


class DictKeysMatch(ElementsMatch):
    """A dict with the same keys in the same order; equal keys of other types (1, True) fail."""

    KIND = "DICT_KEYS"
    WHAT = "keys"


@dataclass(frozen=True)
class KeyMatch(SourceGuard):
    """The presence, or the absence, of a key in a dict."""

    KIND = "DICT_CONTAINS"
    key: Hashable
    present: bool

    def checks(self) -> Iterable[Check]:
        return (Check(f"key {self.key!r}", Op.CONTAINS, self.present, self.key),)


EMPTY = CellType()


@dataclass(frozen=True)
class EmptyCell(SourceGuard):
    """The cell of a variable that is not bound: cells are equal if their contents are."""

    KIND = "EMPTY_CELL"

    def checks(self) -> Iterable[Check]:
        return (Check("content", Op.EQUAL, EMPTY),)


@dataclass(frozen=True)
class AttributeGuard(SourceGuard):
    """The presence, or the absence, of an attribute of an object."""

    KIND = "HASATTR"
    attribute: str
    present: bool

    def checks(self) -> Iterable[Check]:
        what = f"attribute {self.attribute}"
        return (Check(what, Op.PYTHON, self.present, (hasattr, self.attribute)),)
