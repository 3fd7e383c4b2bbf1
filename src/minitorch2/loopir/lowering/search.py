"""Looking for values: membership in a set, positions among sorted boundaries."""

from __future__ import annotations

import torch

from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.expressions import product
from minitorch2.loopir.loops import Index, InnerFn, Pointwise
from minitorch2.loopir.lowering.reduction import all_, any_
from minitorch2.loopir.lowering.registry import NoLoopForm, lowering, make_pointwise
from minitorch2.loopir.ops import Value, ops
from minitorch2.loopir.promotion import Operand, Promotion
from minitorch2.loopir.views import reshape, unsqueeze

aten = torch.ops.aten

MOST_COMPARED = 64
"""Membership in a larger set is a library call, which sorts."""


@lowering(aten.isin)
def isin(
    elements: Operand, tests: Operand, *, assume_unique: bool = False, invert: bool = False
) -> TensorBox:
    """Return whether each element is among `tests` (not among them, with `invert`)."""
    if isinstance(elements, TensorBox):
        elements = unsqueeze(elements, elements.ndim)
    if isinstance(tests, TensorBox):
        count = product(tests.size)
        if not isinstance(count, int) or count > MOST_COMPARED:
            raise NoLoopForm(f"it compares with more than {MOST_COMPARED} others")
        tests = reshape(tests, (-1,))

    def compare(dtype: torch.dtype, x: Value, y: Value) -> Value:
        return ops.ne(x, y) if invert else ops.eq(x, y)

    found = make_pointwise(compare, (elements, tests), Promotion.ALWAYS_BOOL)
    return all_(found, [-1]) if invert else any_(found, [-1])


@lowering(aten.bucketize.Tensor)
def bucketize(
    x: TensorBox, boundaries: TensorBox, *, out_int32: bool = False, right: bool = False
) -> TensorBox:
    """Count the sorted boundaries less than each element (or not above it, if `right`).

    `boundaries` is a row of them, or has a row for each of `x`.
    """
    *rows, count = boundaries.size
    if not isinstance(count, int) or count == 0 or x.dtype != boundaries.dtype:
        raise NoLoopForm("boundaries of unknown number or of another dtype")
    boundaries.storage.realize("a search reads its boundaries repeatedly")
    load, load_boundary = x.make_loader(), boundaries.make_loader()
    dtype = torch.int32 if out_int32 else torch.int64

    def inner_fn(index: Index) -> Value:
        def load_in_row(place: Index) -> Value:
            return load_boundary((*index[: len(rows)], *place))

        places = _boundaries_before(load_in_row, load(index), count, right)
        return ops.to_dtype(places, dtype)

    return TensorBox.create(Pointwise(x.device, dtype, x.size, inner_fn))


def _boundaries_before(load: InnerFn, value: Value, count: int, right: bool) -> Value:
    """Run a binary search without branches: `start` boundaries are certainly before the value.

    A NaN comes after all numbers.
    """
    start = _number(0)
    step = 1 << (count.bit_length() - 1)
    while step:
        probe = ops.add(start, _number(step))
        last = ops.sub(ops.minimum(probe, _number(count)), _number(1))
        index: Index = (ops.indirect_indexing(last, count, check=False, wrap=False),)
        boundary = load(index)
        after = ops.gt(boundary, value) if right else ops.ge(boundary, value)
        inside = ops.le(probe, _number(count))
        start = ops.where(ops.logical_and(inside, ops.logical_not(after)), probe, start)
        step //= 2
    return start


def _number(value: int) -> Value:
    return ops.constant(value, torch.int64)


@lowering(aten.searchsorted.Tensor)
def searchsorted(
    boundaries: TensorBox,
    x: TensorBox,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: TensorBox | None = None,
) -> TensorBox:
    """`bucketize` with the boundaries first."""
    if sorter is not None:
        raise NoLoopForm("unsorted boundaries")
    return bucketize(x, boundaries, out_int32=out_int32, right=right or side == "right")
