"""Guards between values: the same object, distinct objects or memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from minitorch2.bytecode.guards.guard import Check, Guard, SourceGuard
from minitorch2.bytecode.guards.sources import AttributeSource, Source
from minitorch2.graph.symbols.ragged import may_be_offsets
from minitorch2.graph.wrapper_tensors import is_wrapper, taken_apart
from minitorch2.native.cpython.guard_machine import Op


@dataclass(frozen=True)
class MembersGuard(Guard):
    """A guard on several values at once."""

    members: tuple[Source, ...]

    def sources(self) -> tuple[Source, ...]:
        return self.members


@dataclass(frozen=True)
class SameObject(SourceGuard):
    """Two sources load one object, as they did while capturing."""

    KIND = "DUPLICATE_INPUT"
    other: Source

    def sources(self) -> tuple[Source, ...]:
        return (self.source, self.other)

    def checks(self) -> Iterable[Check]:
        return (Check(f"is {self.other}", Op.SAME, True),)


@dataclass(frozen=True)
class DistinctObjects(MembersGuard):
    """No two of the sources load one object."""

    KIND = "DISTINCT_INPUTS"

    def checks(self) -> Iterable[Check]:
        return (Check("distinct", Op.DISTINCT, len(self.members), "objects"),)


@dataclass(frozen=True)
class DistinctStorages(MembersGuard):
    """No two of the tensors share memory: needed when the graph writes to one of them."""

    KIND = "DISTINCT_STORAGES"

    def checks(self) -> Iterable[Check]:
        return (Check("distinct storages", Op.DISTINCT, len(self.members), "storages"),)


def storage_bytes(tensor: torch.Tensor) -> int:
    """Return the number of bytes of a tensor's memory."""
    return tensor.untyped_storage().nbytes()


def spare_bytes(tensor: torch.Tensor) -> int:
    """Return the number of bytes of a tensor's memory beyond those of its elements."""
    return storage_bytes(tensor) - int(tensor.nbytes)


@dataclass(frozen=True)
class StorageSize(SourceGuard):
    """A tensor's memory has as many bytes as its elements, or a number of them.

    Attributes:
        nbytes: the number; None for the bytes of the elements.
    """

    KIND = "STORAGE_SIZE"
    nbytes: int | None = None

    def checks(self) -> Iterable[Check]:
        if self.nbytes is None:
            return (Check("bytes beyond its elements", Op.PYTHON, 0, (spare_bytes,)),)
        return (Check("storage size", Op.PYTHON, self.nbytes, (storage_bytes,)),)


def memory_pattern(*tensors: torch.Tensor) -> tuple[tuple[int, int], ...]:
    """Return, for each tensor, which one has the same memory first, and the bytes between them."""
    storages = [tensor.untyped_storage()._cdata for tensor in tensors]
    first = [storages.index(storage) for storage in storages]
    places = [int(tensor.storage_offset()) * tensor.itemsize for tensor in tensors]
    return tuple((i, place - places[i]) for i, place in zip(first, places, strict=True))


@dataclass(frozen=True)
class MemoryPattern(MembersGuard):
    """Tensors share memory, or share none, as they did while capturing.

    Attributes:
        pattern: see `memory_pattern`.
    """

    KIND = "SHARED_MEMORY"
    pattern: tuple[tuple[int, int], ...]

    def checks(self) -> Iterable[Check]:
        return (Check("shared memory", Op.PYTHON, self.pattern, (memory_pattern,)),)


def repeated_parts(inputs: Sequence[tuple[object, Source]]) -> Iterator[Guard]:
    """Yield guards on which of the plain tensors that inputs are made of are the same object.

    Two jagged tensors have the same size if, and only if, they have the same offsets.
    """
    wrappers: list[Any] = [value for value, _ in inputs if is_wrapper(value)]
    found: dict[int, Source] = {}
    offsets: dict[Source, None] = {}
    for value, source in inputs if wrappers else ():
        for place, part in _plain_parts(value, source):
            first = found.setdefault(id(part), place)
            if first != place:
                yield SameObject(place, first)
            elif may_be_offsets(part):
                offsets[place] = None
    if len(offsets) > 1 and any(value.layout is torch.jagged for value in wrappers):
        yield DistinctObjects(tuple(offsets))


def _plain_parts(value: object, source: Source) -> Iterator[tuple[Source, Any]]:
    if not is_wrapper(value):
        yield source, value
        return
    for name, part in taken_apart(value)[0].items():
        yield from _plain_parts(part, AttributeSource(source, name))
