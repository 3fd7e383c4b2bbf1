"""Tensors side by side: concatenation, stacking, padding.

For a few parts, each element finds the part that it lies in. `ops.masked` reads only that part, and
the result may be inlined into its readers. Many parts are computed into one memory, each into its
place, without a copy (PyTorch 2 paper, section 4.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import sympy
import torch

from minitorch2.graph.symbols import expr_of
from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.buffers import ComputedBuffer, current_table
from minitorch2.loopir.expressions import Expr, to_expr
from minitorch2.loopir.layout import FixedLayout, Size, contiguous_strides, is_dense
from minitorch2.loopir.loops import Index, InnerFn, Loops, Pointwise, Scatter
from minitorch2.loopir.lowering.conversion import convert
from minitorch2.loopir.lowering.fallback import extern_call
from minitorch2.loopir.lowering.reduction_loops import cast
from minitorch2.loopir.lowering.registry import lowering
from minitorch2.loopir.ops import Number, Value, ops
from minitorch2.loopir.promotion import result_type
from minitorch2.loopir.views import normalize_dim, slice_

aten = torch.ops.aten

MAX_MASKED_PARTS = 4
"""Parts of longer concatenations have memory: so many questions cost more than that."""


@lowering(aten.cat)
def cat(tensors: Sequence[TensorBox], dim: int = 0) -> TensorBox:
    """Concatenate tensors along a dimension. Empty vectors are skipped, as in eager."""
    dtype = result_type(tensors)
    parts = [part for part in tensors if part.size != (0,)]
    if len(parts) < 2:
        return convert((parts or list(tensors))[0], dtype)
    dim = normalize_dim(dim, parts[0].ndim)
    if len(parts) > MAX_MASKED_PARTS:
        return _side_by_side(parts, dtype, dim)
    loaders = [cast(part, dtype).make_loader() for part in parts]
    starts: list[Expr] = [0]
    for part in parts:
        starts.append(to_expr(starts[-1] + part.size[dim]))

    def inner_fn(index: Index) -> Value:
        return _choose(loaders, starts, index, dim)

    size = (*parts[0].size[:dim], starts[-1], *parts[0].size[dim + 1 :])
    return TensorBox.create(Pointwise(parts[0].device, dtype, size, inner_fn))


def _side_by_side(parts: Sequence[TensorBox], dtype: torch.dtype, dim: int) -> TensorBox:
    """Compute each part into its place; the library copies parts that no loops compute."""
    if not any(isinstance(part.storage.data, Loops | ComputedBuffer) for part in parts):
        same = [cast(part, dtype) for part in parts]
        result: TensorBox = extern_call(aten.cat.default, (same, dim), {}, current_table().result)
        return result
    size, stride = _size_and_stride(parts, dim)
    layout = FixedLayout(parts[0].device, dtype, size, stride)
    whole, start = None, 0
    for part in parts:
        inlined = () if part.storage.is_realized() else part.storage.origins
        with current_table().working_for(inlined):
            whole = _add_part(cast(part, dtype), dim, start, layout, whole)
        start = to_expr(start + part.size[dim])
    assert whole is not None
    return whole


def _size_and_stride(parts: Sequence[TensorBox], dim: int) -> tuple[Size, Size]:
    fake = current_table().result
    extent = to_expr(sum(part.size[dim] for part in parts))
    size = (*parts[0].size[:dim], extent, *parts[0].size[dim + 1 :])
    same_rank = isinstance(fake, torch.Tensor) and fake.ndim == len(size)
    stride = tuple(map(expr_of, fake.stride())) if same_rank else contiguous_strides(size)
    return size, stride if is_dense(size, stride) else contiguous_strides(size)


def _add_part(
    part: TensorBox, dim: int, start: Expr, layout: FixedLayout, whole: TensorBox | None
) -> TensorBox:
    """Add one part to the memory of `whole`, or to new memory."""

    def output_index(index: Index) -> Index:
        return (*index[:dim], to_expr(index[dim] + start), *index[dim + 1 :])

    base = whole.storage.realize("it is there already").name if whole else None
    load = part.make_loader()
    loops = Scatter(part.device, part.dtype, part.size, load, output_index, base, is_disjoint=True)
    return TensorBox.computed(loops, layout)


def _choose(loaders: Sequence[InnerFn], starts: Sequence[Expr], index: Index, dim: int) -> Value:
    """Return the element of the part in which `index[dim]` lies; the last part is the default."""
    position = ops.index_expr(index[dim], torch.int64)
    parts = [
        _part(load, position, start, end, index, dim, is_last=load is loaders[-1])
        for load, start, end in zip(loaders, starts, starts[1:])
    ]
    result = parts[-1][1]
    for mask, value in reversed(parts[:-1]):
        result = ops.where(mask, value, result)
    return result


def _part(
    load: InnerFn, position: Value, start: Expr, end: Expr, index: Index, dim: int, is_last: bool
) -> tuple[Value, Value]:
    """Return whether `index[dim]` lies in `start..end` of the result, and the element if so.

    Parts are tried in order, so the last one needs no upper bound and the first no lower one.
    """
    inner = (*index[:dim], to_expr(index[dim] - start), *index[dim + 1 :])
    before_end = ops.lt(position, ops.index_expr(end, torch.int64))
    if start == 0:
        mask = before_end
    else:
        after = ops.ge(position, ops.index_expr(start, torch.int64))
        mask = after if is_last else ops.logical_and(after, before_end)
    return mask, ops.masked(mask, lambda: load(inner), 0)


@lowering(aten.constant_pad_nd)
def constant_pad_nd(x: TensorBox, pad: Sequence[Expr], value: Number = 0) -> TensorBox:
    """Pad with `value` before and after, from the last dimension on; negative pads crop."""
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    before_after: list[tuple[Expr, Expr]] = [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]
    for dim, (before, after) in enumerate(before_after):
        x = _crop(x, dim, before, after)
    padded = [(_positive(before), _positive(after)) for before, after in before_after]
    size = tuple(to_expr(n + b + a) for n, (b, a) in zip(x.size, padded, strict=True))
    load, inside_size = x.make_loader(), x.size

    def inner_fn(index: Index) -> Value:
        inner = tuple(to_expr(i - b) for i, (b, _) in zip(index, padded, strict=True))
        conditions = [
            condition
            for dim, (before, after) in enumerate(padded)
            for condition in _inside(inner[dim], inside_size[dim], before, after)
        ]
        if not conditions:
            return load(inner)
        return ops.masked(reduce(ops.logical_and, conditions), lambda: load(inner), value)

    return TensorBox.create(Pointwise(x.device, x.dtype, size, inner_fn))


def _inside(position: Expr, size: Expr, before: Expr, after: Expr) -> list[Value]:
    """Return the conditions of `0 <= position < size` that are not certain."""
    value = ops.index_expr(position, torch.int64)
    low = [ops.ge(value, ops.constant(0, torch.int64))] if before != 0 else []
    high = [ops.lt(value, ops.index_expr(size, torch.int64))] if after != 0 else []
    return low + high


def _positive(pad: Expr) -> Expr:
    return max(pad, 0) if isinstance(pad, int) else to_expr(sympy.Max(pad, 0))


def _crop(x: TensorBox, dim: int, before: Expr, after: Expr) -> TensorBox:
    """Take elements away where pads are negative."""
    front, back = _positive(to_expr(-before)), _positive(to_expr(-after))
    if front == 0 and back == 0:
        return x
    return slice_(x, dim, front, to_expr(x.size[dim] - front - back))
