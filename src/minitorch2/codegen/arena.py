"""One allocation for intermediates that only kernels see.

Kernels take addresses, so such a buffer needs no tensor: it is a range of bytes in an arena. Ranges
of buffers that are never alive together overlap. An arena lives as long as its buffers: where none
of them is alive it is given back, and later ones have another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

ALIGNMENT = 64


@dataclass(frozen=True)
class Interval:
    """A buffer that is alive from kernel `start` to kernel `end`, both included."""

    name: str
    bytes: int
    start: int
    end: int


@dataclass(frozen=True)
class ArenaPlan:
    """The place of each buffer, the size of the arena, what it would be without sharing, and the
    kernels from `start` to `end` that need it.
    """

    offsets: Mapping[str, int]
    bytes: int
    bytes_without_reuse: int
    start: int
    end: int


def plan_arenas(intervals: Sequence[Interval]) -> Iterator[ArenaPlan]:
    """One arena for each chain of lives that overlap in time."""
    chain: list[Interval] = []
    for interval in sorted(intervals, key=lambda i: i.start):
        if chain and interval.start > max(other.end for other in chain):
            yield plan_arena(chain)
            chain = []
        chain.append(interval)
    if chain:
        yield plan_arena(chain)


def plan_arena(intervals: Sequence[Interval]) -> ArenaPlan:
    """Give each buffer the lowest free place, largest buffers first."""
    placed: list[tuple[Interval, int]] = []
    for interval in sorted(intervals, key=lambda i: (-i.bytes, i.start)):
        rivals = sorted(
            (offset, offset + other.bytes)
            for other, offset in placed
            if other.start <= interval.end and interval.start <= other.end
        )
        place = 0
        for low, high in rivals:
            if place + interval.bytes <= low:
                break
            place = max(place, _aligned(high))
        placed.append((interval, place))
    offsets = {interval.name: place for interval, place in placed}
    total = max((place + interval.bytes for interval, place in placed), default=0)
    return ArenaPlan(
        offsets,
        _aligned(total),
        sum(_aligned(i.bytes) for i in intervals),
        min(i.start for i in intervals),
        max(i.end for i in intervals),
    )


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
