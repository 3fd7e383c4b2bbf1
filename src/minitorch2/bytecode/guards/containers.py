"""Guards on the contents of a container or cell, and on the attributes that an object has."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from operator import length_hint
from types import CellType

from minitorch2.bytecode.guards.guard import Check, Name, SourceGuard, Test
from minitorch2.native.cpython.guard_machine import Op


@dataclass(frozen=True)
class LengthMatch(SourceGuard):
    """A container with as many elements."""

    KIND = "LENGTH"
    length: int

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        actual = f"{name(len)}({path})"
        yield Check("length", f"{actual} == {self.length}", actual, str(self.length))

    def tests(self) -> Sequence[Test]:
        return (Test(Op.LENGTH, self.length),)


@dataclass(frozen=True)
class Remaining(SourceGuard):
    """An iterator over a sequence with as many elements left."""

    KIND = "TUPLE_ITERATOR_LEN"
    length: int

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        actual = f"{name(length_hint)}({path})"
        yield Check("elements left", f"{actual} == {self.length}", actual, str(self.length))


@dataclass(frozen=True)
class DictKeysMatch(SourceGuard):
    """A dict with the same keys in the same order; equal keys of other types (1, True) fail."""

    KIND = "DICT_KEYS"
    keys: tuple[Hashable, ...]

    @property
    def only_names(self) -> bool:
        """True if all keys are strings, so that equal keys are the same keys."""
        return all(type(key) is str for key in self.keys)

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        actual = f"[*{path}]"
        expected = list(self.keys)
        condition = f"{actual} == {name(expected)}"
        if not self.only_names:
            condition += f" and {name(repr)}({actual}) == {str(expected)!r}"
        yield Check("keys", condition, actual, str(expected))

    def tests(self) -> Sequence[Test] | None:
        return (Test(Op.KEYS, list(self.keys)),) if self.only_names else None


@dataclass(frozen=True)
class SetMatch(SourceGuard):
    """A set with the same elements of the same types, in the same order of iteration.

    Equal sets that were filled in another order may be iterated over in another order.
    """

    KIND = "SET_CONTAINS"
    elements: tuple[Hashable, ...]

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        equal = f"(*{path},) == {name(self.elements)}"
        types = name(tuple(map(type, self.elements)))
        condition = f"{equal} and (*{name(map)}({name(type)}, {path}),) == {types}"
        yield Check("elements", condition, path, str(self.elements))


@dataclass(frozen=True)
class KeyAbsent(SourceGuard):
    """A dict without this key."""

    KIND = "DICT_CONTAINS"
    key: Hashable

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        key = name(self.key)
        yield Check(f"no key {self.key!r}", f"{key} not in {path}", f"{key} in {path}", "absent")

    def tests(self) -> Sequence[Test]:
        return (Test(Op.CONTAINS, self.key, False),)


EMPTY = CellType()


@dataclass(frozen=True)
class EmptyCell(SourceGuard):
    """The cell of a variable that is not bound: cells are equal if their contents are."""

    KIND = "EMPTY_CELL"

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        condition = f"{path} == {name(EMPTY)}"
        yield Check("is empty", condition, condition, "True")


@dataclass(frozen=True)
class KeyPresent(SourceGuard):
    """A dict with this key."""

    KIND = "DICT_CONTAINS"
    key: Hashable

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        condition = f"{name(self.key)} in {path}"
        yield Check(f"key {self.key!r}", condition, condition, "present")

    def tests(self) -> Sequence[Test]:
        return (Test(Op.CONTAINS, self.key, True),)


@dataclass(frozen=True)
class AttributeGuard(SourceGuard):
    """The presence, or the absence, of an attribute of an object."""

    KIND = "HASATTR"
    attribute: str
    present: bool

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        actual = f"{name(hasattr)}({path}, {self.attribute!r})"
        condition = actual if self.present else f"not {actual}"
        yield Check(f"attribute {self.attribute}", condition, actual, str(self.present))
