"""Guards between values: the same object, distinct objects or memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from minitorch2.bytecode.guards.guard import Check, Guard, Name, SourceGuard, Test
from minitorch2.bytecode.guards.sources import Source
from minitorch2.native.cpython.guard_machine import Op
from minitorch2.native.torch_internals.tensor_layout import tensor_layout

MOST_PAIRED = 200
"""More objects than this are not compared in pairs."""


@dataclass(frozen=True)
class SameObject(SourceGuard):
    """Two sources load one object, as they did while capturing."""

    KIND = "DUPLICATE_INPUT"
    other: Source

    def sources(self) -> tuple[Source, ...]:
        return (self.source, self.other)

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        condition = f"{paths[0]} is {paths[1]}"
        yield Check(f"is {self.other}", condition, condition, "True")

    def tests(self) -> Sequence[Test]:
        return (Test(Op.SAME),)


@dataclass(frozen=True)
class DistinctObjects(Guard):
    """No two of the sources load one object."""

    KIND = "DISTINCT_INPUTS"
    members: tuple[Source, ...]

    def sources(self) -> tuple[Source, ...]:
        return self.members

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        identities = ", ".join(f"{name(id)}({path})" for path in paths)
        actual = f"{name(len)}({{{identities}}})"
        if len(paths) == 2:
            actual = f"2 - ({paths[0]} is {paths[1]})"
        yield Check("distinct", f"{actual} == {len(paths)}", actual, str(len(paths)))

    def tests(self) -> Sequence[Test] | None:
        return (Test(Op.DISTINCT, (0, 0)),) if len(self.members) <= MOST_PAIRED else None


@dataclass(frozen=True)
class DistinctStorages(Guard):
    """No two of the tensors share memory: needed when the graph writes to one of them."""

    KIND = "DISTINCT_STORAGES"
    members: tuple[Source, ...]

    def sources(self) -> tuple[Source, ...]:
        return self.members

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        pointers = ", ".join(f"{path}.untyped_storage()._cdata" for path in paths)
        actual = f"{name(len)}({{{pointers}}})"
        yield Check("distinct storages", f"{actual} == {len(paths)}", actual, str(len(paths)))

    def tests(self) -> Sequence[Test] | None:
        layout = tensor_layout()
        if layout is None or len(self.members) > MOST_PAIRED:
            return None
        return (Test(Op.DISTINCT, (layout.tensor, layout.storage)),)


@dataclass(frozen=True)
class StorageSize(SourceGuard):
    """A tensor's memory has as many bytes as its elements, or a number of them.

    Attributes:
        nbytes: the number; None for the bytes of the elements.
    """

    KIND = "STORAGE_SIZE"
    nbytes: int | None = None

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        actual, wanted = f"{path}.untyped_storage().nbytes()", self.nbytes
        expected = f"{path}.nbytes" if wanted is None else str(wanted)
        yield Check("storage size", f"{actual} == {expected}", actual, expected)


def memory_pattern(*tensors: torch.Tensor) -> tuple[tuple[int, int], ...]:
    """Return, for each tensor, which one has the same memory first, and the bytes between them."""
    storages = [tensor.untyped_storage()._cdata for tensor in tensors]
    first = [storages.index(storage) for storage in storages]
    places = [int(tensor.storage_offset()) * tensor.itemsize for tensor in tensors]
    return tuple((i, place - places[i]) for i, place in zip(first, places, strict=True))


@dataclass(frozen=True)
class MemoryPattern(Guard):
    """Tensors share memory, or share none, as they did while capturing.

    Attributes:
        members: the tensors.
        pattern: see `memory_pattern`.
    """

    KIND = "SHARED_MEMORY"
    members: tuple[Source, ...]
    pattern: tuple[tuple[int, int], ...]

    def sources(self) -> tuple[Source, ...]:
        return self.members

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        actual = f"{name(memory_pattern)}({', '.join(paths)})"
        expected = repr(self.pattern)
        yield Check("shared memory", f"{actual} == {expected}", actual, expected)
