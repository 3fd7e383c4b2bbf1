"""Sums, products, means, extremes and their positions, any and all.

Low-precision inputs are summed in float32.
"""

from __future__ import annotations

import torch

from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.expressions import Expr, product
from minitorch2.loopir.loops import Index
from minitorch2.loopir.lowering.reduction_loops import (
    Dims,
    ReducedDims,
    accumulation_dtype,
    cast,
    count_of,
    first_stage,
    make_reduction,
    pieces_of,
    reads_of,
)
from minitorch2.loopir.lowering.registry import lowering, make_pointwise, map_elements, number_value
from minitorch2.loopir.ops import ReductionKind, Value, compute_dtype, ops
from minitorch2.loopir.views import coordinates, flat_index

aten = torch.ops.aten


# -- sums and products --------------------------------------------------------------------------


@lowering(aten.sum)
def sum_(
    x: TensorBox, dim: Dims = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> TensorBox:
    """Return the sum along dimensions."""
    return make_reduction(x, "sum", dim, keepdim, accumulation_dtype(x, dtype))


@lowering(aten.nansum)
def nansum(
    x: TensorBox, dim: Dims = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> TensorBox:
    """Return the sum along dimensions, without NaN elements."""
    if x.dtype.is_floating_point:
        x = map_elements(_zero_if_nan, (x,), x.dtype, x.dtype)
    return sum_(x, dim, keepdim, dtype=dtype)


def _zero_if_nan(dtype: torch.dtype, v: Value) -> Value:
    return ops.where(ops.isnan(v), number_value(0, dtype), v)


@lowering(aten.prod)
def prod(
    x: TensorBox, dim: int | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> TensorBox:
    """Return the product along a dimension, or of all elements."""
    return make_reduction(x, "prod", dim, keepdim, accumulation_dtype(x, dtype))


def wide_mean(x: TensorBox, dim: Dims, keepdim: bool) -> TensorBox:
    """Return the mean in the compute dtype."""
    return divide(make_reduction(x, "sum", dim, keepdim, compute_dtype(x.dtype)), count_of(x, dim))


def divide(x: TensorBox, count: Expr) -> TensorBox:
    """Return each element divided by one number."""
    return make_pointwise(lambda _, v, n: ops.truediv(v, n), (x, count))


# -- extremes -----------------------------------------------------------------------------------


@lowering(aten.amax, aten.max.default)
def amax(x: TensorBox, dim: Dims = (), keepdim: bool = False) -> TensorBox:
    """Return the largest element along dimensions; NaN if there is one."""
    return make_reduction(x, "max", dim, keepdim, x.dtype)


@lowering(aten.amin, aten.min.default)
def amin(x: TensorBox, dim: Dims = (), keepdim: bool = False) -> TensorBox:
    """Return the smallest element along dimensions; NaN if there is one."""
    return make_reduction(x, "min", dim, keepdim, x.dtype)


@lowering(aten.aminmax)
def aminmax(
    x: TensorBox, *, dim: int | None = None, keepdim: bool = False
) -> tuple[TensorBox, TensorBox]:
    """Smallest and largest."""
    return amin(x, dim, keepdim), amax(x, dim, keepdim)


@lowering(aten.max.dim)
def max_dim(x: TensorBox, dim: int, keepdim: bool = False) -> tuple[TensorBox, TensorBox]:
    """Return the largest along a dimension and its position."""
    return amax(x, dim, keepdim), argmax(x, dim, keepdim)


@lowering(aten.min.dim)
def min_dim(x: TensorBox, dim: int, keepdim: bool = False) -> tuple[TensorBox, TensorBox]:
    """Return the smallest along a dimension and its position."""
    return amin(x, dim, keepdim), argmin(x, dim, keepdim)


@lowering(aten.argmax)
def argmax(x: TensorBox, dim: int | None = None, keepdim: bool = False) -> TensorBox:
    """Return the position of the first largest element; without dim, of the flattened tensor."""
    return _position(x, "argmax", dim, keepdim)


@lowering(aten.argmin)
def argmin(x: TensorBox, dim: int | None = None, keepdim: bool = False) -> TensorBox:
    """Return the position of the first smallest element; without dim, of the flattened tensor."""
    return _position(x, "argmin", dim, keepdim)


def _position(x: TensorBox, kind: ReductionKind, dim: int | None, keepdim: bool) -> TensorBox:
    """Reduce to the position of an extreme; values carry it, so loops may run in any order."""
    dims = ReducedDims(x, dim, keepdim)
    load, source = x.make_loader(), compute_dtype(x.dtype)

    def inner_fn(index: Index, reduction_index: Index) -> tuple[Value, Value]:
        flat = flat_index(reduction_index, dims.reduction_ranges)
        candidate = load(dims.join(index, reduction_index))
        return candidate, ops.index_expr(flat, torch.int64)

    pieces = pieces_of(dims, reads_of(dims, load), x.device)
    if not pieces:
        return dims.reduce(torch.int64, inner_fn, dims.reduction_ranges, kind, source)
    first = first_stage(torch.int64, dims, inner_fn, kind, source, pieces).make_loader()

    def best(index: Index, piece: Index) -> tuple[Value, Value]:
        position = first((*piece, *index))
        flat = ops.indirect_indexing(
            position, product(dims.reduction_ranges), check=False, wrap=False
        )
        return load(dims.join(index, coordinates(flat, dims.reduction_ranges))), position

    return dims.reduce(torch.int64, best, pieces, kind, source)


# -- logic --------------------------------------------------------------------------------------


def _logic_dtype(x: TensorBox) -> torch.dtype:
    """`any` and `all` give bool, but uint8 for uint8."""
    return torch.uint8 if x.dtype == torch.uint8 else torch.bool


@lowering(aten.any)
def any_(x: TensorBox, dim: Dims = None, keepdim: bool = False) -> TensorBox:
    """Return whether some element is not 0."""
    found = make_reduction(x, "any", dim, keepdim, torch.bool)
    return cast(found, _logic_dtype(x))


@lowering(aten.all)
def all_(x: TensorBox, dim: Dims = None, keepdim: bool = False) -> TensorBox:
    """Return whether no element is 0."""
    zeros = _negated(cast(x, torch.bool))
    found = make_reduction(zeros, "any", dim, keepdim, torch.bool)
    return cast(_negated(found), _logic_dtype(x))


def _negated(x: TensorBox) -> TensorBox:
    return make_pointwise(lambda _, v: ops.logical_not(v), (x,))


@lowering(aten.count_nonzero)
def count_nonzero(x: TensorBox, dim: Dims = None) -> TensorBox:
    """Count the elements that are not 0."""
    return make_reduction(cast(x, torch.bool), "sum", dim, False, torch.int64)
