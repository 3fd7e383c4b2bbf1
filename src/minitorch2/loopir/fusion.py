"""Fusion of nodes into one kernel: its legality, its score, and the fused node.

`can_fuse` decides legality from addresses: a consumer may only read, in each iteration, what the
producer has written in that iteration. `score_fusion` orders the possibilities. The PyTorch 2
paper, section 4.4, has both as methods of the scheduler.

Two nodes are first *aligned*: their loops are split until both have the same domain.

    pointwise n        + pointwise n                        -->  loops of n
    pointwise n        + reduction (n kept, k reduced)      -->  covers the kept loops
    pointwise n * k    + reduction (n kept, k reduced)      -->  covers all loops
    reduction (n, k)   + reduction (n, k)                   -->  side by side, or in turn
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch

from minitorch2.loopir.expressions import equal, product
from minitorch2.loopir.iteration import Access, Sizes, Strides, refine, split_counts, split_strides
from minitorch2.loopir.loops import Scatter
from minitorch2.loopir.schedule import (
    Capabilities,
    FusedSchedulerNode,
    KernelNode,
    Refusal,
    SchedulerNode,
    bodies,
)

MINIMUM_ROWS = 16
"""A reduction into fewer outputs is not worth threads of its own..."""
LONG_ROW = 32768
"""...if each of them reduces more elements than this: then its neighbours stay parallel kernels."""

Score = tuple[bool, bool, int, int]


@dataclass(frozen=True)
class Alignment:
    """The domain of a fusion, and the loops of it that each side covers."""

    ranges: Sizes
    reduction_ranges: Sizes
    first_covers: bool
    second_covers: bool

    @property
    def sizes(self) -> Sizes:
        """All loops."""
        return (*self.ranges, *self.reduction_ranges)


def has_reduction(node: KernelNode) -> bool:
    """Return whether any body of the kernel is a reduction, or a scan."""
    return node.has_inner_loops


def align(first: KernelNode, second: KernelNode) -> Alignment | None:
    """Return a domain for both nodes, if their loops are splits of common ones."""
    reduces = has_reduction(first), has_reduction(second)
    if reduces == (False, False):
        ranges = refine(first.ranges, second.ranges)
        return None if ranges is None else Alignment(ranges, (), True, True)
    if reduces == (True, True):
        ranges = refine(first.ranges, second.ranges)
        reduction = refine(first.reduction_ranges, second.reduction_ranges)
        if ranges is None or reduction is None:
            return None
        return Alignment(ranges, reduction, True, True)
    if reduces == (True, False):
        found = _align_pointwise(second, first)
        return found and Alignment(found.ranges, found.reduction_ranges, True, found.first_covers)
    return _align_pointwise(first, second)


def _align_pointwise(pointwise: KernelNode, reduction: KernelNode) -> Alignment | None:
    outputs, reduced = reduction.group
    elements = product(pointwise.ranges)
    if equal(elements, product((outputs, reduced))):
        full = refine(pointwise.ranges, (*reduction.ranges, *reduction.reduction_ranges))
        if full is None:
            return None
        kept = sum(split_counts((*reduction.ranges, *reduction.reduction_ranges), full)[
            : len(reduction.ranges)
        ])  # fmt: skip
        return Alignment(full[:kept], full[kept:], True, True)
    if equal(elements, outputs):
        ranges = refine(pointwise.ranges, reduction.ranges)
        return (
            None if ranges is None else Alignment(ranges, reduction.reduction_ranges, False, True)
        )
    return None


@lru_cache(65536)
def _strides_in(strides: Strides, own: Sizes, target: Sizes) -> Strides:
    """Return the strides over the domain's loops; loops that a body does not have count as 0."""
    covered = target if equal(product(own), product(target)) else _prefix(own, target)
    split = (
        strides if own == covered else split_strides(strides, split_counts(own, covered), covered)
    )
    return (*split, *(0,) * (len(target) - len(covered)))


def _prefix(own: Sizes, target: Sizes) -> Sizes:
    elements = product(own)
    for end in range(len(target) + 1):
        if equal(product(target[:end]), elements):
            return target[:end]
    raise AssertionError(f"{own} is no part of {target}")


def aligned(body: SchedulerNode, access: Access, alignment: Alignment, covers: bool) -> Strides:
    """Return an access of a body as strides over the loops of an alignment."""
    covered = covers and body.covers_reduction
    if body.has_inner_loops:
        kept = len(body.ranges)
        outer = _strides_in(access.strides[:kept], body.ranges, alignment.ranges)
        inner = _strides_in(
            access.strides[kept:] or (0,) * len(body.reduction_ranges),
            body.reduction_ranges, alignment.reduction_ranges,
        )  # fmt: skip
        return (*outer, *inner)
    target = alignment.sizes if covered else alignment.ranges
    strides = _strides_in(access.strides, body.sizes, target)
    return (*strides, *(0,) * (len(alignment.sizes) - len(target)))


def can_fuse(first: KernelNode, second: KernelNode, capabilities: Capabilities) -> Refusal | None:
    """Return the reason why `second` cannot run in the loops of `first`, or None if it can.

    The scheduler checks for cycles through other nodes.
    """
    if len(bodies(first)) + len(bodies(second)) > capabilities.max_fusion_size:
        return Refusal(f"more than {capabilities.max_fusion_size} loop bodies in a kernel")
    read = (first.read_names | second.read_names) - first.written_names
    if len(read) > capabilities.max_reads:
        return Refusal(f"more than {capabilities.max_reads} buffers to read in a kernel")
    if bodies(first)[0].buffer.device != bodies(second)[0].buffer.device:
        return Refusal("different devices")
    if 0 in (*first.group, *second.group):
        # Products that are 0 say nothing about the loops that they are products of.
        return Refusal("no elements")
    alignment = align(first, second)
    if alignment is None:
        return Refusal(f"no common loops: {first.group} and {second.group}", is_of_loops=True)
    scatters = _check_scatters(first, second)
    if scatters is not None:
        return scatters
    return _check_addresses(first, second, alignment) or _check_reductions(
        first, second, alignment, capabilities
    )


def _check_scatters(first: KernelNode, second: KernelNode) -> Refusal | None:
    """Refuse a scatter in shared loops unless its stores may run in any order (`is_disjoint`)."""
    for body in (*first.scatters, *second.scatters):
        loops = body.buffer.loops
        assert isinstance(loops, Scatter)
        if body.repeats_stores:
            return Refusal(f"{body.name} may store twice to an element: its loops run in order")
        if has_reduction(first) or has_reduction(second):
            return Refusal(f"{body.name} stores into a part of memory, beside a reduction")
        if loops.mode == "add" and body.name in second.read_names:
            return Refusal(f"{body.name} adds: only memory has the sum")
        if loops.base in first.written_names and not loops.is_disjoint:
            return Refusal(f"{body.name} needs all of {loops.base}")
    return None


def _flows(
    first: KernelNode, second: KernelNode, alignment: Alignment
) -> Iterator[tuple[SchedulerNode, SchedulerNode, Access, Access]]:
    """(producer, consumer, write, read) for each buffer that goes from first to second."""
    if not first.written_names & second.read_names:
        return
    writers = {body.name: body for body in bodies(first)}
    for consumer in bodies(second):
        for read in consumer.reads_of:
            producer = writers.get(read.name)
            if producer is not None:
                for write in producer.writes_of:
                    yield producer, consumer, write, read


def _check_addresses(first: KernelNode, second: KernelNode, alignment: Alignment) -> Refusal | None:
    """Require that in each iteration the consumer reads the address that the producer writes."""
    for producer, consumer, write, read in _flows(first, second, alignment):
        written = aligned(producer, write, alignment, alignment.first_covers)
        wanted = aligned(consumer, read, alignment, alignment.second_covers)
        if None in wanted or not _same(written, wanted) or not equal(write.offset, read.offset):
            return Refusal(
                f"{consumer.name} reads {read.name} at other addresses than it is written:"
                f" strides {wanted} offset {read.offset}, not {written} offset {write.offset}",
                is_of_loops=True,
            )
    return None


def _same(a: Strides, b: Strides) -> bool:
    return a == b or all(
        x is not None and y is not None and equal(x, y) for x, y in zip(a, b, strict=True)
    )


def _check_reductions(
    first: KernelNode, second: KernelNode, alignment: Alignment, capabilities: Capabilities
) -> Refusal | None:
    """Return the reason why the kernels cannot share loops around a reduction, or None."""
    broadcasts = any(
        (producer.is_reduction or not producer.covers_reduction)  # it waits for the end of a loop
        and alignment.second_covers
        and consumer.covers_reduction
        for producer, consumer, _, _ in _flows(first, second, alignment)
    )
    if broadcasts and not capabilities.fuses_reduction_broadcast_reduction:
        return Refusal("the code generator has no reduction-broadcast-reduction kernels")
    if has_reduction(first) != has_reduction(second):
        pointwise = second if has_reduction(first) else first
        rows, length = product(alignment.ranges), product(alignment.reduction_ranges)
        is_long = isinstance(length, int) and length > LONG_ROW
        if is_long and isinstance(rows, int) and rows < MINIMUM_ROWS and broadcasts:
            return Refusal(f"{pointwise.name} is parallel, {rows} rows of {length} are not")
    return None


def common_bytes(
    first: KernelNode, second: KernelNode, dtypes: Mapping[str, torch.dtype]
) -> tuple[int, bool]:
    """Return the bytes of memory traffic that both share, and whether all elements are shared.

    Unknown sizes count as 4096.
    """
    alignment = align(first, second)
    if alignment is None:
        return 0, False
    names = first.touched_names & second.touched_names
    left = _accesses(first, names, alignment, alignment.first_covers)
    right = _accesses(second, names, alignment, alignment.second_covers)
    total, is_full = 0, False
    for name, strides, offset in left & right:
        elements = Access(name, strides, offset).elements(alignment.sizes)
        count = elements if isinstance(elements, int) else 4096
        total += count * dtypes[name].itemsize
        is_full = is_full or 0 not in strides
    return total, is_full


def _accesses(
    node: KernelNode, names: frozenset[str], alignment: Alignment, covers: bool
) -> set[tuple[str, Strides, object]]:
    """Return the accesses to some buffers; bodies with equal loops have many in common."""
    different = {
        (access, body.sizes, body.covers_reduction, body.has_inner_loops): body
        for body in bodies(node)
        for access in (*body.reads_of, *body.writes_of)
        if access.name in names
    }
    return {
        (access.name, aligned(body, access, alignment, covers), access.offset)
        for (access, *_), body in different.items()
    }


def score_fusion(first: KernelNode, second: KernelNode, dtypes: Mapping[str, torch.dtype]) -> Score:
    """(same category, pointwise or producer and consumer, bytes saved, -distance).

    The paper's order: the category of the fusion, the memory traffic saved, a shorter distance in
    the graph. For `cos(sin(x))` on 8192 x 1024 float32: `(True, True, 33554432, -1)`.
    """
    return score_of(first, second, common_bytes(first, second, dtypes)[0])


def score_of(first: KernelNode, second: KernelNode, shared: int) -> Score:
    """Return the score of two kernels that share this many bytes of memory traffic."""
    same_category = has_reduction(first) == has_reduction(second)
    is_vertical = bool(first.written_names & second.read_names)
    return same_category, is_vertical, shared, -_distance(first, second)


def _distance(first: KernelNode, second: KernelNode) -> int:
    """Return the distance in the graph between the nearest bodies of two kernels."""
    orders = [body.order for body in bodies(second)]
    nearest = []
    for body in bodies(first):
        behind = bisect(orders, body.order)
        nearest += [abs(body.order - order) for order in orders[max(behind - 1, 0) : behind + 1]]
    return min(nearest)


def fuse(first: KernelNode, second: KernelNode) -> FusedSchedulerNode:
    """Fuse two nodes, which `can_fuse` must allow, to one; their loops are split in place."""
    alignment = align(first, second)
    assert alignment is not None
    for node, covers in ((first, alignment.first_covers), (second, alignment.second_covers)):
        for body in bodies(node):
            body.set_domain(
                alignment.ranges, alignment.reduction_ranges, covers and body.covers_reduction
            )
    return FusedSchedulerNode([*bodies(first), *bodies(second)])
