"""The order of loops: before fusion to make two nodes agree, after it to walk memory well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from minitorch2.errors import VerificationError
from minitorch2.loopir.expressions import Expr, equal
from minitorch2.loopir.fusion import has_reduction
from minitorch2.loopir.iteration import Access, Sizes, can_merge, vote_order
from minitorch2.loopir.schedule import KernelNode, SchedulerNode, bodies


def match_order(first: KernelNode, second: KernelNode) -> bool:
    """Permute the loops of one pointwise kernel so that both walk a shared buffer alike.

    For example `x.t() + 1` after `x * 2`, or a sum over rows after a pointwise kernel over rows
    and columns. Loops are cut first where the other kernel's are: a sum over pieces of rows has two
    loops where a pointwise kernel has one. True if loops were changed; whether fusion is legal now
    is for `can_fuse` to say.
    """
    for moved, fixed in ((second, first), (first, second)):
        if has_reduction(moved):
            continue
        is_split = _split_like(moved, fixed)
        order = _order_like(moved, fixed)
        if order is not None and order != list(range(len(order))):
            for body in bodies(moved):
                body.permute(order)
            return True
        if is_split:
            return True
    return False


def _split_like(moved: KernelNode, fixed: KernelNode) -> bool:
    """Cut the loops of a pointwise kernel where the other cuts a buffer that both touch."""
    for own, _, other in _common_accesses(moved, fixed):
        fine = _cut_at(moved.ranges, own, other)
        if fine is not None and fine != moved.ranges:
            for body in bodies(moved):
                body.set_domain(fine, (), True)
            return True
    return False


def _cut_at(sizes: Sizes, own: Access, other: Access) -> Sizes | None:
    """Return the own loops, each cut at the strides of another access inside of it, or None."""
    fine: list[Expr] = []
    for size, stride in zip(sizes, own.strides, strict=True):
        if not (isinstance(size, int) and isinstance(stride, int) and stride > 0):
            fine.append(size)
            continue
        inner = {t for t in other.strides if isinstance(t, int) and stride < t < stride * size}
        steps = [stride, *sorted(inner), stride * size]
        if any(far % near for near, far in pairwise(steps)):
            return None
        fine += [far // near for near, far in reversed(list(pairwise(steps)))]
    return tuple(fine)


def _order_like(moved: KernelNode, fixed: KernelNode) -> list[int] | None:
    for own, sizes, other in _common_accesses(moved, fixed):
        order = _sorted_into(moved.ranges, own, sizes, other)
        if order is not None:
            return order
    return None


def _common_accesses(
    moved: KernelNode, fixed: KernelNode
) -> Iterator[tuple[Access, Sizes, Access]]:
    """Pair the different accesses of two kernels to a buffer, over the second one's loops.

    Bodies of one kernel mostly touch a buffer alike.
    """
    names = moved.touched_names & fixed.touched_names
    others: dict[str, dict[tuple[Sizes, Access], None]] = {name: {} for name in names}
    for body in bodies(fixed):
        for access in (*body.writes_of, *body.reads_of):
            if access.name in names and len(access.strides) == len(body.sizes):
                others[access.name][body.sizes, access] = None
    own = dict.fromkeys(
        access
        for body in bodies(moved)
        for access in (*body.writes_of, *body.reads_of)
        if access.name in names
    )
    for access in own:
        for sizes, other in others[access.name]:
            yield access, sizes, other


def _sorted_into(own_sizes: Sizes, own: Access, sizes: Sizes, other: Access) -> list[int] | None:
    """Return the own loops in the order of another access to the same buffer.

    A loop of the other access is matched by the own loop with its stride and size, or covers the
    own loops with strides in s..s*n, in decreasing order. None if any own loop has no place.
    """
    order: list[int] = []
    for stride, size in zip(other.strides, sizes, strict=True):
        left = [i for i in range(len(own_sizes)) if i not in order]
        order += _matching(stride, size, own_sizes, own, left) or _covered(stride, size, own, left)
    return order if len(order) == len(own_sizes) else None


def _matching(
    stride: Expr | None, size: Expr, own_sizes: Sizes, own: Access, left: list[int]
) -> list[int]:
    """Return the first own loop with this stride and size, as a list; both may be symbols."""
    for i in left:
        mine = own.strides[i]
        moves = stride is not None and mine is not None and stride != 0
        if moves and equal(mine, stride) and equal(own_sizes[i], size):
            return [i]
    return []


def _covered(stride: Expr | None, size: Expr, own: Access, left: list[int]) -> list[int]:
    """Return the own loops that together walk the memory of one loop of this stride and size."""
    if not isinstance(stride, int) or not isinstance(size, int) or stride <= 0:
        return []
    inside = [(s, i) for i in left if isinstance(s := own.strides[i], int)]
    return [i for s, i in sorted(inside, reverse=True) if stride <= s < stride * size]


@dataclass(frozen=True)
class LoopDecision:
    """Loops whose order a vote has changed: the old number of each, outermost first."""

    kernel: str
    sizes: Sizes
    order: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.kernel}: loops {self.sizes} run in the order {self.order}, by vote"


def settle_loops(node: KernelNode, *, reorders: bool = True) -> list[LoopDecision]:
    """Order the loops of a finished kernel by vote, and merge those that walk memory as one.

    Kept loops stay outside of reduction loops: a code generator may still exchange the two sides.
    """
    decisions = _reorder(node) if reorders else []
    _merge_all(node, len(node.ranges))
    return decisions


def _reorder(node: KernelNode) -> list[LoopDecision]:
    wide = max(bodies(node), key=lambda body: len(body.sizes))
    kept = len(node.ranges)
    accesses = _wide_accesses(node, len(wide.sizes), kept)
    inner = range(kept, len(wide.sizes))
    scans = any(body.is_scan for body in bodies(node))  # in the order of the program
    order = [
        *vote_order(range(kept), wide.sizes, accesses),
        *(inner if scans else vote_order(inner, wide.sizes, accesses)),
    ]
    if order == list(range(len(order))):
        return []
    decision = LoopDecision(node.name, wide.sizes, tuple(order))
    for body in bodies(node):
        body.permute(order if len(body.sizes) == len(order) else order[:kept])
    return [decision]


def _wide_accesses(node: KernelNode, loops: int, kept: int) -> list[Access]:
    """Return all accesses over all loops of the kernel: 0 where a body has no such loop."""
    result = []
    for body in bodies(node):
        for access in (*body.reads_of, *body.writes_of, *body.writes_of):
            missing = (0,) * (loops - len(access.strides))
            result.append(Access(access.name, (*access.strides, *missing), access.offset))
    return result


def _merge_all(node: KernelNode, kept: int) -> None:
    """Merge neighbouring loops from the inside out, each side of a reduction by itself."""
    sizes = max((body.sizes for body in bodies(node)), key=len)
    merged = False
    for outer in reversed(range(len(sizes) - 1)):
        if outer == kept - 1:
            continue
        inside = [body for body in bodies(node) if len(body.sizes) > outer + 1]
        if all(can_merge(outer, outer + 1, b.sizes, (*b.reads_of, *b.writes_of)) for b in inside):
            for body in inside:
                body.merge(outer)
            merged = True
    if merged:
        for body in bodies(node):
            _verify(body)


def _verify(body: SchedulerNode) -> None:
    """Check that the merged body, run again, touches the addresses that its strides give."""
    reads, writes = body.record_accesses()
    if set(reads) != set(body.reads_of) or set(writes) != set(body.writes_of):
        raise VerificationError(f"merging the loops of {body.name} changed its addresses")


def reduces_across(node: KernelNode) -> bool:
    """Return whether the last kept loop walks memory better than the last reduced one."""
    kept, reduced = unit_steps(node)
    return kept > reduced


def unit_steps(node: KernelNode) -> tuple[int, int]:
    """Count the accesses with step 1 along the last kept loop, and along the last reduced one.

    Only accesses that move with both loops count. A row that was looked up is another one at each
    turn of the reduced loop.
    """
    if not node.ranges:
        return 0, 0
    last = len(node.ranges) - 1
    both = [
        (access.strides[last] == 1, access.strides[-1] == 1)
        for body in bodies(node)
        for access in (*body.reads_of, *body.writes_of)
        if len(access.strides) > last + 1
        and access.strides[last] != 0
        and (access.strides[-1] != 0 or access.is_indirect)
    ]
    return sum(kept for kept, _ in both), sum(reduced for _, reduced in both)
