"""One allocation for intermediates that only kernels see.

Kernels take addresses, so such a buffer needs no tensor: it is a range of bytes in an arena. Ranges
of buffers that are never alive together overlap. An arena lives as long as its buffers: where none
of them is alive it is given back, and later ones have another, unless to keep it costs nothing.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

ALIGNMENT = 64
SMALL = 2**16
"""So many bytes more may be held at a time, to save allocations."""


@dataclass(frozen=True)
class Interval:
    """A buffer that is alive from kernel `start` to kernel `end`, both included."""

    name: str
    bytes: int
    start: int
    end: int


@dataclass(frozen=True)
class ArenaPlan:
    """The place of each buffer, the size of the arena, its size without sharing, and the kernels
    from `start` to `end` that need it.
    """

    offsets: Mapping[str, int]
    bytes: int
    bytes_without_reuse: int
    start: int
    end: int

    def kept_for(self, later: ArenaPlan) -> ArenaPlan:
        """Return an arena that serves this one's buffers, and another one's after their death."""
        return ArenaPlan(
            {**self.offsets, **later.offsets},
            max(self.bytes, later.bytes),
            self.bytes_without_reuse + later.bytes_without_reuse,
            self.start,
            later.end,
        )


def plan_arenas(
    intervals: Sequence[Interval], tensors: Sequence[Interval] | None = None
) -> tuple[list[ArenaPlan], int | None]:
    """Plan an arena for each chain of lives that overlap in time; return the peak bytes, too.

    An arena is kept for the next chain where then hardly more is held at a time than at another.

    Args:
        tensors: what else is held; None if that is not known, as its sizes vary.
    """
    chains = [plan_arena(chain) for chain in _chains(intervals)]
    if tensors is None:
        return chains, None
    held = _held(tensors, [*intervals, *tensors])
    peak = max([*held, *(max(held[c.start : c.end + 1]) + c.bytes for c in chains)], default=0)
    arenas: list[ArenaPlan] = []
    most = 0
    for chain in chains:
        since = arenas[-1].end + 1 if arenas else chain.start
        longer = arenas[-1].kept_for(chain) if arenas else chain
        most_with = max(most, *held[since : chain.end + 1])
        if longer is not chain and most_with + longer.bytes <= peak + SMALL:
            arenas[-1], most = longer, most_with
        else:
            arenas.append(chain)
            most = max(held[chain.start : chain.end + 1])
    return arenas, peak


def _chains(intervals: Sequence[Interval]) -> Iterator[list[Interval]]:
    """Yield lists of lives that overlap, one with the next."""
    chain: list[Interval] = []
    end = -1
    for interval in sorted(intervals, key=lambda i: i.start):
        if chain and interval.start > end:
            yield chain
            chain = []
        chain.append(interval)
        end = max(end, interval.end)
    if chain:
        yield chain


def _held(tensors: Sequence[Interval], all_lives: Sequence[Interval]) -> list[int]:
    """Return the bytes that tensors take at each position."""
    changes = [0] * (max((life.end for life in all_lives), default=-1) + 2)
    for tensor in tensors:
        changes[tensor.start] += tensor.bytes
        changes[tensor.end + 1] -= tensor.bytes
    return [*accumulate(changes)]


def plan_arena(intervals: Sequence[Interval]) -> ArenaPlan:
    """Give each buffer the lowest free place, largest buffers first."""
    placed: list[tuple[int, int, int, int]] = []  # first byte, end, start and end of life
    offsets: dict[str, int] = {}
    for interval in sorted(intervals, key=lambda i: (-i.bytes, i.start)):
        place = 0
        for low, high, start, end in placed:
            if start <= interval.end and interval.start <= end:
                if place + interval.bytes <= low:
                    break
                if high > place:
                    place = high
        after = _aligned(place + interval.bytes)
        insort(placed, (place, after, interval.start, interval.end))
        offsets[interval.name] = place
    return ArenaPlan(
        offsets,
        max((after for _, after, _, _ in placed), default=0),
        sum(_aligned(i.bytes) for i in intervals),
        min(i.start for i in intervals),
        max(i.end for i in intervals),
    )


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
