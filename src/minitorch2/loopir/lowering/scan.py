"""Running sums, products and extremes.

The logarithm of a running sum of exponentials stays a library call: a running maximum may change
the scale of all sums before it.
"""

from __future__ import annotations

import torch

from minitorch2.graph.symbols import expr_of
from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.buffers import current_table
from minitorch2.loopir.layout import FixedLayout, contiguous_strides, is_dense
from minitorch2.loopir.loops import Index, Pointwise, Scan
from minitorch2.loopir.lowering.fallback import extern_call
from minitorch2.loopir.lowering.reduction_loops import ReducedDims, accumulation_dtype, cast
from minitorch2.loopir.lowering.registry import NoLoopForm, lowering
from minitorch2.loopir.ops import ScanKind, Value, ops
from minitorch2.loopir.views import normalize_dim, reshape

aten = torch.ops.aten


def make_scan(x: TensorBox, kind: ScanKind, dim: int, dtype: torch.dtype) -> TensorBox:
    """Combine the elements of a dimension up to each one, converted to `dtype` first."""
    if x.ndim == 0:
        return reshape(make_scan(reshape(x, (1,)), kind, 0, dtype), ())
    dims, load = ReducedDims(x, dim, keepdim=False), cast(x, dtype).make_loader()

    def inner_fn(index: Index, reduction_index: Index) -> Value:
        return load(dims.join(index, reduction_index))

    loops = Scan(x.device, dtype, dims.ranges, inner_fn, dims.reduction_ranges, kind, dims.join)
    return TensorBox.computed(loops, _layout(x, dtype))


def _layout(x: TensorBox, dtype: torch.dtype) -> FixedLayout:
    """Return the layout of eager's result if it has this size, else a row-major one."""
    fake = current_table().result
    fake = fake if isinstance(fake, torch.Tensor) else fake[0]
    stride = tuple(map(expr_of, fake.stride()))
    fits = len(stride) == x.ndim and is_dense(x.size, stride)
    return FixedLayout(x.device, dtype, x.size, stride if fits else contiguous_strides(x.size))


def _is_along_memory(x: TensorBox, dim: int) -> bool:
    """Return whether the result's elements along a dimension lie side by side."""
    return x.ndim > 0 and _layout(x, x.dtype).stride[normalize_dim(dim, x.ndim)] == 1


@lowering(aten.cumsum.default)
def cumsum(x: TensorBox, dim: int, *, dtype: torch.dtype | None = None) -> TensorBox:
    """Return the sum of the elements up to each one."""
    return _accumulated(x, "sum", dim, dtype)


@lowering(aten.cumprod.default)
def cumprod(x: TensorBox, dim: int, *, dtype: torch.dtype | None = None) -> TensorBox:
    """Return the product of the elements up to each one."""
    return _accumulated(x, "prod", dim, dtype)


def _accumulated(x: TensorBox, kind: ScanKind, dim: int, dtype: torch.dtype | None) -> TensorBox:
    """Along memory each step waits for the one before. There the library converts float16 in
    vectors first, and is three times as fast as a loop that converts one by one.
    """
    result = accumulation_dtype(x, dtype)
    if result == torch.bool:
        raise NoLoopForm("a running sum of bools")
    if result == torch.float16 and x.device.type == "cpu" and _is_along_memory(x, dim):
        target = aten.cumsum.default if kind == "sum" else aten.cumprod.default
        return extern_call(target, (x, dim), {"dtype": dtype}, current_table().result)  # type: ignore[no-any-return]
    return make_scan(x, kind, dim, result)


@lowering(aten.cummax.default)
def cummax(x: TensorBox, dim: int) -> tuple[TensorBox, TensorBox]:
    """Return the largest element so far, and the last position at which it stood."""
    return _extreme_so_far(x, "max", dim)


@lowering(aten.cummin.default)
def cummin(x: TensorBox, dim: int) -> tuple[TensorBox, TensorBox]:
    """Return the smallest element so far, and the last position at which it stood."""
    return _extreme_so_far(x, "min", dim)


def _extreme_so_far(x: TensorBox, kind: ScanKind, dim: int) -> tuple[TensorBox, TensorBox]:
    """Scan the extreme so far, and the greatest position so far at which it stands.

    Along memory each step waits for the one before, which the library's branch does not: it is four
    times as fast there. Across memory these loops are forty times as fast as the library.
    """
    if x.ndim == 0 or x.dtype == torch.bool:
        raise NoLoopForm("a 0-dim tensor, or bools")
    if _is_along_memory(x, dim):
        target = aten.cummax.default if kind == "max" else aten.cummin.default
        return extern_call(target, (x, dim), {}, current_table().result)  # type: ignore[no-any-return]
    best = make_scan(x, kind, dim, x.dtype)
    load, load_best, dim = x.make_loader(), best.make_loader(), normalize_dim(dim, x.ndim)

    def position(index: Index) -> Value:
        element, place = load(index), ops.index_expr(index[dim], torch.int64)
        is_best = ops.eq(element, load_best(index))
        if x.dtype.is_floating_point:
            is_best = ops.logical_or(is_best, ops.isnan(element))
        return ops.where(is_best, place, ops.constant(0, torch.int64))

    places = TensorBox.create(Pointwise(x.device, torch.int64, x.size, position))
    return best, make_scan(places, "max", dim, torch.int64)
