"""Guards between values: the same object, distinct objects or memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from minitorch2.bytecode.guards.guard import Check, Guard, Name, SourceGuard, Test
from minitorch2.bytecode.guards.tensor_layout import tensor_layout
from minitorch2.bytecode.machine.guard_machine import Op
from minitorch2.bytecode.sources import Source

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
