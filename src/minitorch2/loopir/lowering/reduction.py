"""Reductions: one loop nest over the kept dimensions, another over the reduced ones.

Variance is computed in two passes (mean, then squared differences) rather than by Welford's
update: each pass is a plain sum, which vectorizes without a division per element, fuses with its
neighbours and is at least as accurate. Low-precision inputs are reduced in float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import sympy
import torch

from minitorch2 import config
from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.expressions import Expr, floor_div, product, to_expr
from minitorch2.loopir.layout import Size
from minitorch2.loopir.loops import Index, InnerFn, Pointwise, Reduction, ReductionFn
from minitorch2.loopir.lowering.conversion import convert
from minitorch2.loopir.lowering.registry import (
    PointwiseBody,
    lowering,
    make_pointwise,
    map_elements,
    number_value,
)
from minitorch2.loopir.ops import Number, ReductionKind, Value, compute_dtype, ops
from minitorch2.loopir.promotion import Promotion
from minitorch2.loopir.views import normalize_dim, reshape

aten = torch.ops.aten
Dims = int | Sequence[int] | None

COMBINE: dict[str, str] = {
    "sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "logical_or",
    "xor_sum": "bitwise_xor",
}  # fmt: skip
"""The elementwise primitive that combines two values of a reduction."""


class ReducedDims:
    """Which dimensions are reduced, and how an element's index is made of its two halves."""

    def __init__(self, x: TensorBox, dim: Dims, keepdim: bool) -> None:
        self.ndim, self.keepdim = x.ndim, keepdim
        self.reduced = reduced_dims(x.ndim, dim)
        self.kept = [d for d in range(x.ndim) if d not in self.reduced]
        self.reduction_ranges: Size = tuple(x.size[d] for d in self.reduced)
        self.ranges: Size = tuple(
            1 if d in self.reduced else x.size[d]
            for d in range(x.ndim)
            if keepdim or d in self.kept
        )

    def join(self, index: Index, reduction_index: Index) -> Index:
        """The full index of an element from its kept and its reduced coordinates."""
        outer = [index[d] for d in self.kept] if self.keepdim else list(index)
        full = dict(zip(self.kept, outer, strict=True))
        full |= dict(zip(self.reduced, reduction_index, strict=True))
        return tuple(full[d] for d in range(self.ndim))


def reduced_dims(ndim: int, dim: Dims) -> list[int]:
    """The dimensions to reduce, sorted; None or an empty list means all."""
    if isinstance(dim, int):
        return [normalize_dim(dim, ndim)] if ndim else []
    return sorted({normalize_dim(d, ndim) for d in dim}) if dim and ndim else list(range(ndim))


def make_reduction(
    x: TensorBox, kind: ReductionKind, dim: Dims, keepdim: bool, dtype: torch.dtype
) -> TensorBox:
    """Reduce dimensions of `x`, converted to `dtype` first; the result has dtype `dtype`.

    A few elements are combined by an expression instead of a loop, which fuses with its readers;
    very many, with few results, in two stages that run in parallel.
    """
    dims = ReducedDims(x, dim, keepdim)
    load = (x if x.dtype == dtype else convert(x, dtype)).make_loader()
    count = product(dims.reduction_ranges)
    few = max(config.current().unroll_reductions_threshold, 2)
    if isinstance(count, int) and 0 < count < few:
        return _unrolled(x.device, dtype, dims, load, kind)

    def inner_fn(index: Index, reduction_index: Index) -> Value:
        return load(dims.join(index, reduction_index))

    pieces = pieces_of(dims)
    if pieces > 1:
        return _in_two_stages(x.device, dtype, dims, inner_fn, kind, pieces)
    return TensorBox.create(
        Reduction(x.device, dtype, dims.ranges, inner_fn, dims.reduction_ranges, kind,
                  compute_dtype(dtype))
    )  # fmt: skip


def _unrolled(
    device: torch.device, dtype: torch.dtype, dims: ReducedDims, load: InnerFn, kind: ReductionKind
) -> TensorBox:
    positions = _all_positions([int(n) for n in dims.reduction_ranges])

    def inner_fn(index: Index) -> Value:
        values = [load(dims.join(index, position)) for position in positions]
        result: Value = values[0]
        for value in values[1:]:
            result = getattr(ops, COMBINE[kind])(result, value)
        return result

    return TensorBox.create(Pointwise(device, dtype, dims.ranges, inner_fn))


SPLIT_BELOW_OUTPUTS = 32
SPLIT_FROM_ELEMENTS = 1 << 16
MOST_PIECES = 128


def pieces_of(dims: ReducedDims) -> int:
    """Into how many partial results a reduction is cut, 1 for not at all.

    Few outputs of many elements each would keep most processors idle. The first reduced dimension
    is cut into equal pieces, so addresses stay linear.
    """
    outputs, count = product(dims.ranges), product(dims.reduction_ranges)
    first = dims.reduction_ranges[0] if dims.reduction_ranges else 1
    if not (isinstance(outputs, int) and isinstance(count, int) and isinstance(first, int)):
        return 1
    if outputs > SPLIT_BELOW_OUTPUTS or count < SPLIT_FROM_ELEMENTS:
        return 1
    return max(p for p in range(1, MOST_PIECES + 1) if first % p == 0)


def _in_two_stages(
    device: torch.device,
    dtype: torch.dtype,
    dims: ReducedDims,
    inner_fn: ReductionFn,
    kind: ReductionKind,
    pieces: int,
) -> TensorBox:
    """Partial results in the compute dtype, one for each piece, and their combination."""
    first, *others = dims.reduction_ranges
    length = floor_div(first, pieces)
    kept = compute_dtype(dtype)

    def partial(index: Index, reduction_index: Index) -> Value | tuple[Value, Value]:
        head = to_expr(index[-1] * length + reduction_index[0])
        return inner_fn(index[:-1], (head, *reduction_index[1:]))

    ranges, rest = (*dims.ranges, pieces), (length, *others)
    stage = TensorBox.create(Reduction(device, kept, ranges, partial, rest, kind, kept))
    load = stage.make_loader()

    def combine(index: Index, reduction_index: Index) -> Value:
        return load((*index, *reduction_index))

    return TensorBox.create(Reduction(device, dtype, dims.ranges, combine, (pieces,), kind, kept))


def _all_positions(sizes: list[int]) -> list[tuple[int, ...]]:
    positions: list[tuple[int, ...]] = [()]
    for size in sizes:
        positions = [(*position, i) for position in positions for i in range(size)]
    return positions


def accumulation_dtype(x: TensorBox, dtype: torch.dtype | None) -> torch.dtype:
    """The dtype of a sum or product: the asked one, or int64 for integers and bool."""
    return dtype or (x.dtype if x.dtype.is_floating_point else torch.int64)


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype that intermediate sums are kept in."""
    return compute_dtype(dtype)


def count_of(x: TensorBox, dim: Dims) -> Expr:
    """How many elements are reduced into one."""
    return product(x.size[d] for d in reduced_dims(x.ndim, dim))


# -- sums and products --------------------------------------------------------------------------


@lowering(aten.sum)
def sum_(
    x: TensorBox, dim: Dims = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> TensorBox:
    """The sum along dimensions."""
    return make_reduction(x, "sum", dim, keepdim, accumulation_dtype(x, dtype))


@lowering(aten.nansum)
def nansum(
    x: TensorBox, dim: Dims = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> TensorBox:
    """The sum along dimensions of what is not NaN."""
    if x.dtype.is_floating_point:
        x = map_elements(_zero_if_nan, (x,), x.dtype, x.dtype)
    return sum_(x, dim, keepdim, dtype=dtype)


def _zero_if_nan(dtype: torch.dtype, v: Value) -> Value:
    return ops.where(ops.isnan(v), number_value(0, dtype), v)


@lowering(aten.prod.default)
def prod(x: TensorBox, *, dtype: torch.dtype | None = None) -> TensorBox:
    """The product of all elements."""
    return make_reduction(x, "prod", None, False, accumulation_dtype(x, dtype))


@lowering(aten.prod.dim_int)
def prod_dim(
    x: TensorBox, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> TensorBox:
    """The product along a dimension."""
    return make_reduction(x, "prod", dim, keepdim, accumulation_dtype(x, dtype))


@lowering(aten.mean)
def mean(
    x: TensorBox, dim: Dims = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> TensorBox:
    """The sum, kept in the compute dtype, divided by the count."""
    return convert(_wide_mean(x, dim, keepdim, dtype or x.dtype), dtype or x.dtype)


def _wide_mean(x: TensorBox, dim: Dims, keepdim: bool, dtype: torch.dtype) -> TensorBox:
    total = make_reduction(_to(x, dtype), "sum", dim, keepdim, wide(dtype))
    return _divide(total, count_of(x, dim))


def _to(x: TensorBox, dtype: torch.dtype) -> TensorBox:
    return x if x.dtype == dtype else convert(x, dtype)


def _divide(x: TensorBox, count: Expr) -> TensorBox:
    return make_pointwise(lambda _, v, n: ops.truediv(v, n), (x, count))


@lowering(aten.var.correction)
def var(
    x: TensorBox, dim: Dims = None, *, correction: Number | None = None, keepdim: bool = False
) -> TensorBox:
    """The mean squared difference from the mean, in two passes."""
    return var_mean(x, dim, correction=correction, keepdim=keepdim)[0]


@lowering(aten.var_mean.correction)
def var_mean(
    x: TensorBox, dim: Dims = None, *, correction: Number | None = None, keepdim: bool = False
) -> tuple[TensorBox, TensorBox]:
    """Variance and mean; the divisor is `max(count - correction, 0)`, correction 1 by default."""
    average = _wide_mean(x, dim, True, x.dtype)

    def squared_difference(_: torch.dtype, v: Value, m: Value) -> Value:
        difference = ops.sub(v, m)
        return ops.mul(difference, difference)

    kind = wide(x.dtype)
    squares = map_elements(squared_difference, (x, average), kind, kind)
    total = make_reduction(squares, "sum", dim, keepdim, kind)
    variance = _divide(total, _divisor(count_of(x, dim), 1 if correction is None else correction))
    kept = average if keepdim else reshape(average, variance.size)
    return convert(variance, x.dtype), convert(kept, x.dtype)


def _divisor(count: Expr, correction: Number) -> Expr:
    if isinstance(count, int):
        return max(count - correction, 0)
    return to_expr(sympy.Max(count - correction, 0))


@lowering(aten.std.correction)
def std(
    x: TensorBox, dim: Dims = None, *, correction: Number | None = None, keepdim: bool = False
) -> TensorBox:
    """The square root of the variance."""
    variance = var(x, dim, correction=correction, keepdim=keepdim)
    return make_pointwise(lambda _, v: ops.sqrt(v), (variance,))


# -- extremes -----------------------------------------------------------------------------------


@lowering(aten.amax)
def amax(x: TensorBox, dim: Dims = (), keepdim: bool = False) -> TensorBox:
    """The largest element along dimensions; NaN if there is one."""
    return make_reduction(x, "max", dim, keepdim, x.dtype)


@lowering(aten.amin)
def amin(x: TensorBox, dim: Dims = (), keepdim: bool = False) -> TensorBox:
    """The smallest element along dimensions; NaN if there is one."""
    return make_reduction(x, "min", dim, keepdim, x.dtype)


@lowering(aten.max.default)
def max_(x: TensorBox) -> TensorBox:
    """The largest of all elements."""
    return amax(x)


@lowering(aten.min.default)
def min_(x: TensorBox) -> TensorBox:
    """The smallest of all elements."""
    return amin(x)


@lowering(aten.aminmax)
def aminmax(
    x: TensorBox, *, dim: int | None = None, keepdim: bool = False
) -> tuple[TensorBox, TensorBox]:
    """Smallest and largest."""
    return amin(x, dim, keepdim), amax(x, dim, keepdim)


@lowering(aten.max.dim)
def max_dim(x: TensorBox, dim: int, keepdim: bool = False) -> tuple[TensorBox, TensorBox]:
    """The largest along a dimension and its position."""
    return amax(x, dim, keepdim), argmax(x, dim, keepdim)


@lowering(aten.min.dim)
def min_dim(x: TensorBox, dim: int, keepdim: bool = False) -> tuple[TensorBox, TensorBox]:
    """The smallest along a dimension and its position."""
    return amin(x, dim, keepdim), argmin(x, dim, keepdim)


@lowering(aten.argmax)
def argmax(x: TensorBox, dim: int | None = None, keepdim: bool = False) -> TensorBox:
    """The position of the first largest element; of the flattened tensor if no dim is given."""
    return _position(x, "argmax", dim, keepdim)


@lowering(aten.argmin)
def argmin(x: TensorBox, dim: int | None = None, keepdim: bool = False) -> TensorBox:
    """The position of the first smallest element; of the flattened tensor if no dim is given."""
    return _position(x, "argmin", dim, keepdim)


def _position(x: TensorBox, kind: ReductionKind, dim: int | None, keepdim: bool) -> TensorBox:
    """The position is part of the value, so loops may run in any order."""
    dims = ReducedDims(x, dim, keepdim)
    load = x.make_loader()

    def inner_fn(index: Index, reduction_index: Index) -> tuple[Value, Value]:
        flat: Expr = 0
        for position, extent in zip(reduction_index, dims.reduction_ranges, strict=True):
            flat = to_expr(flat * extent + position)
        candidate = load(dims.join(index, reduction_index))
        return candidate, ops.index_expr(flat, torch.int64)

    return TensorBox.create(
        Reduction(x.device, torch.int64, dims.ranges, inner_fn, dims.reduction_ranges, kind,
                  compute_dtype(x.dtype))
    )  # fmt: skip


# -- logic --------------------------------------------------------------------------------------


def _logic_dtype(x: TensorBox) -> torch.dtype:
    """`any` and `all` give bool, but uint8 for uint8."""
    return torch.uint8 if x.dtype == torch.uint8 else torch.bool


@lowering(aten.any)
def any_(x: TensorBox, dim: Dims = None, keepdim: bool = False) -> TensorBox:
    """Whether some element is not 0."""
    found = make_reduction(x, "any", dim, keepdim, torch.bool)
    return _to(found, _logic_dtype(x))


@lowering(aten.all)
def all_(x: TensorBox, dim: Dims = None, keepdim: bool = False) -> TensorBox:
    """Whether no element is 0."""
    zeros = _negated(_to(x, torch.bool))
    found = make_reduction(zeros, "any", dim, keepdim, torch.bool)
    return _to(_negated(found), _logic_dtype(x))


def _negated(x: TensorBox) -> TensorBox:
    return make_pointwise(lambda _, v: ops.logical_not(v), (x,))


@lowering(aten.count_nonzero)
def count_nonzero(x: TensorBox, dim: Dims = None) -> TensorBox:
    """How many elements are not 0."""
    return make_reduction(_to(x, torch.bool), "sum", dim, False, torch.int64)


# -- compositions -------------------------------------------------------------------------------


@lowering(aten.logsumexp)
def logsumexp(x: TensorBox, dim: Dims, keepdim: bool = False) -> TensorBox:
    """`log(sum(exp(x)))`, shifted by the largest element unless that is infinite."""
    x = make_pointwise(lambda _, v: v, (x,), Promotion.INT_TO_FLOAT)
    kind = wide(x.dtype)
    largest = make_reduction(x, "max", dim, True, kind)

    def finite(dtype: torch.dtype, m: Value) -> Value:
        return ops.where(ops.isinf(m), number_value(0, dtype), m)

    shift = make_pointwise(finite, (largest,))
    powers = map_elements(lambda _, v, s: ops.exp(ops.sub(v, s)), (x, shift), kind, kind)
    total = make_reduction(powers, "sum", dim, True, kind)
    result = make_pointwise(lambda _, v, s: ops.add(ops.log(v), s), (total, shift))
    size = ReducedDims(x, dim, keepdim).ranges
    return convert(reshape(result, size), x.dtype)


@lowering(aten._softmax)
def softmax(x: TensorBox, dim: int, half_to_float: bool) -> TensorBox:
    """`exp(x - max) / sum(exp(x - max))`"""
    dtype = torch.float32 if half_to_float else x.dtype
    powers, total = _shifted_powers(x, dim)
    kind = wide(dtype)
    return map_elements(lambda _, v, s: ops.truediv(v, s), (powers, total), kind, dtype)


@lowering(aten._log_softmax)
def log_softmax(x: TensorBox, dim: int, half_to_float: bool) -> TensorBox:
    """`x - max - log(sum(exp(x - max)))`"""
    dtype = torch.float32 if half_to_float else x.dtype
    kind = wide(dtype)
    largest = make_reduction(x, "max", dim, True, kind)
    shifted = map_elements(lambda _, v, m: ops.sub(v, m), (x, largest), kind, kind)
    powers = make_pointwise(lambda _, v: ops.exp(v), (shifted,))
    total = make_reduction(powers, "sum", dim, True, kind)
    return map_elements(lambda _, v, s: ops.sub(v, ops.log(s)), (shifted, total), kind, dtype)


def _shifted_powers(x: TensorBox, dim: int) -> tuple[TensorBox, TensorBox]:
    """`exp(x - max)`, which may become large before it is divided, and its sum."""
    kind = wide(x.dtype)
    largest = make_reduction(x, "max", dim, True, kind)
    powers = map_elements(lambda _, v, m: ops.exp(ops.sub(v, m)), (x, largest), kind, kind)
    powers.storage.realize("softmax reads the exponentials twice")
    return powers, make_reduction(powers, "sum", dim, True, kind)


@lowering(aten.linalg_vector_norm)
def vector_norm(
    x: TensorBox,
    order: Number = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> TensorBox:
    """`sum(|x| ** order) ** (1 / order)`, and its limits for 0 and the infinities."""
    result_dtype = dtype or x.dtype
    x, kind = _to(x, result_dtype), wide(result_dtype)
    magnitude = map_elements(lambda _, v: ops.abs(v), (x,), kind, kind)
    if math.isinf(order):
        extreme: ReductionKind = "max" if order > 0 else "min"
        return convert(make_reduction(magnitude, extreme, dim, keepdim, kind), result_dtype)
    if order == 0:
        return convert(make_reduction(_to(x, torch.bool), "sum", dim, keepdim, kind), result_dtype)
    powers = magnitude if order == 1 else make_pointwise(_powered(order), (magnitude,))
    total = make_reduction(powers, "sum", dim, keepdim, kind)
    root = total if order == 1 else make_pointwise(_rooted(order), (total,))
    return convert(root, result_dtype)


def _powered(order: Number) -> PointwiseBody:
    if order == 2:
        return lambda dtype, v: ops.mul(v, v)
    return lambda dtype, v: ops.pow(v, number_value(float(order), dtype))


def _rooted(order: Number) -> PointwiseBody:
    if order == 2:
        return lambda dtype, v: ops.sqrt(v)
    return lambda dtype, v: ops.pow(v, number_value(1 / order, dtype))
