"""Writing at computed positions: index_put, scatter, index_add, the gradient of an embedding.

Each is a copy of a tensor and a `Scatter` that takes over its memory. As in eager, negative
positions count from the end in `x[i] = y`, `put` and `index_fill`, and are errors elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sympy
import torch

from minitorch2.graph.symbols import expr_of
from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.buffers import current_table
from minitorch2.loopir.expressions import Expr, product, to_expr
from minitorch2.loopir.layout import Size
from minitorch2.loopir.loops import Index, InnerFn, Scatter
from minitorch2.loopir.lowering.creation import full
from minitorch2.loopir.lowering.indexing import IndexPlaces
from minitorch2.loopir.lowering.pointwise import add, choose, mul
from minitorch2.loopir.lowering.reduction_loops import cast
from minitorch2.loopir.lowering.registry import NoLoopForm, lowering, make_pointwise, number_value
from minitorch2.loopir.ops import Number, StoreMode, Value, compute_dtype, ops
from minitorch2.loopir.views import expand, normalize_dim, reshape, unsqueeze

aten = torch.ops.aten
_NARROW = (torch.int8, torch.uint8, torch.int16)
_ATOMIC_ON_GPU = (torch.int32, torch.int64, torch.float32, torch.float64)


def scatter_into(
    x: TensorBox,
    ranges: Size,
    output_index: Callable[[Index], Index],
    inner_fn: InnerFn,
    mode: StoreMode = "set",
) -> TensorBox:
    """Copy `x`, and store (or add) `inner_fn(index)` at `output_index(index)` in the copy.

    Sums of 16-bit floats are kept in float32 and rounded once. Integers of 8 or 16 bits are added
    as int32, for which a GPU has atomic additions; the low bits are the same.

    Raises:
        NoLoopForm: there is no such addition.
    """
    wide = torch.int32 if x.dtype in _NARROW else compute_dtype(x.dtype)
    if mode == "add" and x.dtype != wide:
        narrow = x.dtype

        def widened(index: Index) -> Value:
            value = inner_fn(index)
            return ops.to_dtype(value, wide) if narrow in _NARROW else value

        total = scatter_into(cast(x, wide), ranges, output_index, widened, mode)
        return cast(total, narrow)
    if mode == "add" and not _can_add(x):
        raise NoLoopForm(f"no parallel additions of {x.dtype} on {x.device.type}")
    copy = x.copy()
    result = current_table().result
    if x.ndim == result.ndim:
        copy.storage.preferred_stride = tuple(map(expr_of, result.stride()))
    base = copy.storage.realize("a scatter stores into its own copy")
    loops = Scatter(x.device, x.dtype, ranges, inner_fn, output_index, base.name, mode)
    return TensorBox.computed(loops, base.fixed_layout())


def _can_add(x: TensorBox) -> bool:
    """Return whether a scatter may add in this dtype: not bools; on a GPU, only by atomics."""
    if x.device.type == "cpu":
        return x.dtype != torch.bool
    return x.dtype in _ATOMIC_ON_GPU and not torch.are_deterministic_algorithms_enabled()


@lowering(aten.index_put, aten._unsafe_index_put)
def index_put(
    x: TensorBox,
    indices: Sequence[TensorBox | None],
    values: TensorBox,
    accumulate: bool = False,
    *unsafe: bool,
) -> TensorBox:
    """`x` after `x[indices] = values`, or `+=`."""
    first = indices[0]
    if len(indices) == 1 and first is not None and first.dtype == torch.bool:
        return _masked_put(x, first, values, accumulate)
    places = IndexPlaces(x, indices)
    load = expand(values, places.size).make_loader()
    return scatter_into(
        x, places.size, lambda index: places.source(index, wrap=True), load, _mode(accumulate)
    )


def _masked_put(x: TensorBox, mask: TensorBox, values: TensorBox, accumulate: bool) -> TensorBox:
    """Put one value wherever a mask of the leading dimensions holds."""
    if product(values.size) != 1:
        raise NoLoopForm("as many values as the mask has elements")
    for _ in range(x.ndim - mask.ndim):
        mask = unsqueeze(mask, mask.ndim)
    value = reshape(values, ())
    new = make_pointwise(add, (x, value)) if accumulate else value
    return choose(mask, new, x, x.dtype)


def _mode(accumulate: bool) -> StoreMode:
    return "add" if accumulate else "set"


@lowering(aten.put)
def put(x: TensorBox, index: TensorBox, source: TensorBox, accumulate: bool = False) -> TensorBox:
    """`x` after `x.flatten()[index] = source`, or `+=`."""
    flat = reshape(x, (-1,))
    load_index, load = index.make_loader(), reshape(source, index.size).make_loader()

    def output_index(position: Index) -> Index:
        return (ops.indirect_indexing(load_index(position), flat.size[0]),)

    mode = _mode(accumulate)
    return reshape(scatter_into(flat, index.size, output_index, load, mode), x.size)


# -- along one dimension --------------------------------------------------------------------------


@lowering(aten.scatter.src, aten.scatter.value)
def scatter(
    x: TensorBox, dim: int, index: TensorBox, source: TensorBox | Number | sympy.Expr
) -> TensorBox:
    """`out[.., index[.., i, ..], ..] = source[.., i, ..]`"""
    return _scatter(x, dim, index, source, "set")


@lowering(aten.scatter_add)
def scatter_add(x: TensorBox, dim: int, index: TensorBox, source: TensorBox) -> TensorBox:
    """`out[.., index[.., i, ..], ..] += source[.., i, ..]`"""
    return _scatter(x, dim, index, source, "add")


@lowering(aten.scatter.reduce, aten.scatter.value_reduce)
def scatter_by(
    x: TensorBox,
    dim: int,
    index: TensorBox,
    source: TensorBox | Number | sympy.Expr,
    *,
    reduce: str,
) -> TensorBox:
    """`scatter_add` under its older name; products are not loops."""
    if reduce != "add":
        raise NoLoopForm(f"it reduces by {reduce}")
    return _scatter(x, dim, index, source, "add")


@lowering(aten.scatter_reduce.two)
def scatter_reduce(
    x: TensorBox,
    dim: int,
    index: TensorBox,
    source: TensorBox,
    reduce: str,
    *,
    include_self: bool = True,
) -> TensorBox:
    """`scatter_add`; the other reductions are not loops."""
    if reduce != "sum" or not include_self:
        raise NoLoopForm(f"it reduces by {reduce}" if include_self else "it leaves out its input")
    return _scatter(x, dim, index, source, "add")


def _scatter(
    x: TensorBox,
    dim: int,
    index: TensorBox,
    source: TensorBox | Number | sympy.Expr,
    mode: StoreMode,
) -> TensorBox:
    if x.ndim == 0 or index.ndim == 0:
        source = reshape(source, (-1,)) if isinstance(source, TensorBox) else source
        flat = reshape(x, (-1,)), 0, reshape(index, (-1,))
        return reshape(_scatter(*flat, source, mode), x.size)
    dim, load_index = normalize_dim(dim, x.ndim), index.make_loader()

    def output_index(position: Index) -> Index:
        chosen = ops.indirect_indexing(load_index(position), x.size[dim], wrap=False)
        return (*position[:dim], chosen, *position[dim + 1 :])

    return scatter_into(x, index.size, output_index, _loader(source, x.dtype), mode)


def _loader(source: TensorBox | Number | sympy.Expr, dtype: torch.dtype) -> InnerFn:
    """Return the elements of a tensor, or one number in their place."""
    if isinstance(source, TensorBox):
        return source.make_loader()
    return lambda index: number_value(source, compute_dtype(dtype))


@lowering(aten.index_add)
def index_add(
    x: TensorBox, dim: int, index: TensorBox, source: TensorBox, *, alpha: Number = 1
) -> TensorBox:
    """`out[.., index[i], ..] += alpha * source[.., i, ..]`"""
    scaled = source if alpha == 1 else make_pointwise(mul, (source, alpha))
    return _by_vector(x, dim, index, scaled, "add", wrap=False)


@lowering(aten.index_copy)
def index_copy(x: TensorBox, dim: int, index: TensorBox, source: TensorBox) -> TensorBox:
    """`out[.., index[i], ..] = source[.., i, ..]`"""
    return _by_vector(x, dim, index, source, "set", wrap=False)


@lowering(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_fill(
    x: TensorBox, dim: int, index: TensorBox, value: TensorBox | Number | sympy.Expr
) -> TensorBox:
    """`out[.., index[i], ..] = value`"""
    if isinstance(value, TensorBox):
        number = choose(full((), True, torch.bool, x.device), value, value, x.dtype)
        load = number.make_loader()
        return _by_vector(x, dim, index, lambda position: load(()), "set", wrap=True)
    return _by_vector(x, dim, index, _loader(value, x.dtype), "set", wrap=True)


def _by_vector(
    x: TensorBox,
    dim: int,
    index: TensorBox,
    source: TensorBox | InnerFn,
    mode: StoreMode,
    wrap: bool,
) -> TensorBox:
    """A vector names the positions of one dimension."""
    if x.ndim == 0:
        source = reshape(source, (-1,)) if isinstance(source, TensorBox) else source
        return reshape(_by_vector(reshape(x, (-1,)), 0, index, source, mode, wrap), ())
    dim, chosen = normalize_dim(dim, x.ndim), reshape(index, (-1,))
    load_index = chosen.make_loader()
    load = source.make_loader() if isinstance(source, TensorBox) else source

    def output_index(position: Index) -> Index:
        place = ops.indirect_indexing(load_index((position[dim],)), x.size[dim], wrap=wrap)
        return (*position[:dim], place, *position[dim + 1 :])

    ranges = (*x.size[:dim], chosen.size[0], *x.size[dim + 1 :])
    return scatter_into(x, ranges, output_index, load, mode)


@lowering(aten.embedding_dense_backward)
def embedding_dense_backward(
    grad: TensorBox,
    indices: TensorBox,
    num_weights: Expr,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> TensorBox:
    """Return the rows of `grad`, added up at the rows of the weight that they came from."""
    if scale_grad_by_freq:
        raise NoLoopForm("it scales by frequency")
    zeros = full((num_weights, grad.size[-1]), 0, grad.dtype, grad.device)
    load, load_index = grad.make_loader(), indices.make_loader()

    def inner_fn(index: Index) -> Value:
        row = load_index(index[:-1])
        counts = ops.ne(row, ops.constant(padding_idx, indices.dtype))
        return ops.where(counts, load(index), number_value(0, compute_dtype(grad.dtype)))

    def output_index(index: Index) -> Index:
        row = ops.indirect_indexing(load_index(index[:-1]), num_weights, wrap=False)
        return (row, index[-1])

    return scatter_into(zeros, grad.size, output_index, inner_fn, "add")


# -- diagonals ------------------------------------------------------------------------------------


@lowering(aten.diagonal_scatter)
def diagonal_scatter(
    x: TensorBox, source: TensorBox, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> TensorBox:
    """`x` with a diagonal replaced; its elements are the last dimension of `source`."""
    first, second = normalize_dim(dim1, x.ndim), normalize_dim(dim2, x.ndim)

    def output_index(index: Index) -> Index:
        rest, place = iter(index[:-1]), index[-1]
        moved = {
            first: to_expr(place + max(-offset, 0)), second: to_expr(place + max(offset, 0))
        }  # fmt: skip
        return tuple(moved[d] if d in moved else next(rest) for d in range(x.ndim))

    return scatter_into(x, source.size, output_index, source.make_loader())


@lowering(aten.diag_embed)
def diag_embed(x: TensorBox, offset: int = 0, dim1: int = -2, dim2: int = -1) -> TensorBox:
    """Return zeros with `x` on a diagonal of two new dimensions."""
    size = tuple(map(expr_of, current_table().result.shape))
    return diagonal_scatter(full(size, 0, x.dtype, x.device), x, offset, dim1, dim2)
