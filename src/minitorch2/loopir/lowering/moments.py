"""Mean and variance, for which each element is read from memory once.

A row that fits into registers or a cache is visited twice, for its mean and for the squares of the
differences from it. Both are plain sums, which vectorize without a division per element and fuse
with their neighbours. A longer row is cut into pieces of n elements. The moments (m_i, M_i) of p
pieces are combined as Welford's update combines those of single elements (Chan, Golub and LeVeque,
"Algorithms for computing the sample variance", 1983)::

    m = sum(m_i) / p        M = sum(M_i) + n * sum((m_i - m)^2)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import sympy
import torch

from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.expressions import Expr, floor_div, product, to_expr
from minitorch2.loopir.lowering.conversion import convert
from minitorch2.loopir.lowering.reduction import divide, wide_mean
from minitorch2.loopir.lowering.reduction_loops import (
    Dims,
    count_of,
    cut,
    dims_in_memory,
    few_beside_others,
    goes_across,
    make_reduction,
    pieces_of,
    reduced_dims,
)
from minitorch2.loopir.lowering.registry import lowering, make_pointwise, map_elements
from minitorch2.loopir.ops import Number, Value, compute_dtype, ops
from minitorch2.loopir.views import reshape

aten = torch.ops.aten

LONGEST_IN_CACHE: Final = 1 << 17
"""A row of so many elements is in the CPU's cache when it is read again: half a megabyte."""
SHORTEST_PIECE: Final = 1 << 12


@lowering(aten.var.correction)
def var(
    x: TensorBox, dim: Dims = None, *, correction: Number | None = None, keepdim: bool = False
) -> TensorBox:
    """Return the mean squared difference from the mean."""
    return var_mean(x, dim, correction=correction, keepdim=keepdim)[0]


@lowering(aten.var_mean.correction)
def var_mean(
    x: TensorBox, dim: Dims = None, *, correction: Number | None = None, keepdim: bool = False
) -> tuple[TensorBox, TensorBox]:
    """Variance and mean; the divisor is `max(count - correction, 0)`, correction 1 by default."""
    mean, squares = _moments(x, dim)
    count = count_of(x, dim)
    variance = divide(squares, _divisor(count, 1 if correction is None else correction))
    if not keepdim:
        gone = reduced_dims(x.ndim, dim)
        size = [extent for d, extent in enumerate(x.size) if d not in gone]
        variance, mean = reshape(variance, size), reshape(mean, size)
    return convert(variance, x.dtype), convert(mean, x.dtype)


@lowering(aten.std.correction)
def std(
    x: TensorBox, dim: Dims = None, *, correction: Number | None = None, keepdim: bool = False
) -> TensorBox:
    """Return the square root of the variance."""
    variance = var(x, dim, correction=correction, keepdim=keepdim)
    return make_pointwise(lambda _, v: ops.sqrt(v), (variance,))


def _divisor(count: Expr, correction: Number) -> Expr:
    if isinstance(count, int):
        return max(count - correction, 0)
    return to_expr(sympy.Max(count - correction, 0))


def _moments(x: TensorBox, dim: Dims) -> tuple[TensorBox, TensorBox]:
    """Return the mean and the sum of squared differences, with reduced dimensions kept as 1."""
    pieces = _pieces(x, dim)
    return _combined(x, dim, pieces) if pieces else _of_rows(x, dim)


def _of_rows(x: TensorBox, dim: Dims) -> tuple[TensorBox, TensorBox]:
    mean = wide_mean(x, dim, True)
    return mean, _sum_of_squares(x, mean, dim)


def _pieces(x: TensorBox, dim: Dims) -> Mapping[int, int]:
    """Return the numbers of pieces for each dimension: as for a sum, and for very long rows.

    Between groups of few channels, each channel is a piece, so that a loop runs along all channels.
    """
    dims, reads = dims_in_memory(x, dim, True)
    if x.device.type == "cpu" and (few := few_beside_others(dims, reads)):
        return few
    pieces = pieces_of(dims, reads, x.device, exact=True)
    count = product(dims.reduction_ranges)
    if not pieces and x.device.type == "cpu" and isinstance(count, int):
        is_row = count > LONGEST_IN_CACHE and not goes_across(dims, reads)
        pieces = cut(dims.reduction_ranges, count // SHORTEST_PIECE) if is_row else ()
    return dict(zip(dims.reduced, pieces, strict=False))


def _combined(x: TensorBox, dim: Dims, pieces: Mapping[int, int]) -> tuple[TensorBox, TensorBox]:
    """Combine the moments of pieces into those of the whole; see the module's docstring."""
    size, among, within = list[Expr](), list[int](), list[int]()
    reduced = reduced_dims(x.ndim, dim)
    for d, extent in enumerate(x.size):
        if d in pieces:
            among.append(len(size))
            size.append(pieces[d])
        if d in reduced:
            within.append(len(size))
        size.append(floor_div(extent, pieces.get(d, 1)))
    means, squares = _of_rows(reshape(x, size), within)
    count = math.prod(pieces.values())
    for part in (means, squares):
        part.storage.realize(f"moments of {count} pieces are combined")
    mean = divide(make_reduction(means, "sum", among, True, means.dtype), count)
    between = _sum_of_squares(means, mean, among)
    inside = make_reduction(squares, "sum", among, True, squares.dtype)
    elements = floor_div(count_of(x, dim), count)
    total = make_pointwise(
        lambda _, m, v, n: ops.add(m, ops.mul(v, n)), (inside, between, elements)
    )
    for part in (mean, total):
        part.storage.realize("each element would combine the moments again")
    kept = [1 if d in reduced else extent for d, extent in enumerate(x.size)]
    return reshape(mean, kept), reshape(total, kept)


def _sum_of_squares(x: TensorBox, mean: TensorBox, dim: Dims) -> TensorBox:
    """Return the sum of squared differences from a mean."""

    def squared_difference(_: torch.dtype, v: Value, m: Value) -> Value:
        difference = ops.sub(v, m)
        return ops.mul(difference, difference)

    kind = compute_dtype(x.dtype)
    squares = map_elements(squared_difference, (x, mean), kind, kind)
    return make_reduction(squares, "sum", dim, True, kind)
