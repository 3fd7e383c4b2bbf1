"""Reading at computed positions: index, gather, index_select, embedding; masked writes as reads.

A computed position becomes an index through `ops.indirect_indexing`, which checks the range. As in
eager, negative positions count from the end in `x[i]` and `take`, and are errors elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.expressions import Expr, floor_div, modular_indexing, to_expr
from minitorch2.loopir.layout import Size
from minitorch2.loopir.loops import Index, InnerFn, Pointwise
from minitorch2.loopir.lowering.reduction_loops import cast
from minitorch2.loopir.lowering.registry import NoLoopForm, lowering
from minitorch2.loopir.lowering.view import first_position, from_front
from minitorch2.loopir.ops import Value, ops
from minitorch2.loopir.views import broadcast_sizes, expand, normalize_dim, reshape, unsqueeze

aten = torch.ops.aten


def like(x: TensorBox, size: Size, inner_fn: InnerFn) -> TensorBox:
    """Return a new tensor of the dtype and device of `x`."""
    return TensorBox.create(Pointwise(x.device, x.dtype, size, inner_fn))


@lowering(aten.index.Tensor)
def index_tensor(x: TensorBox, indices: Sequence[TensorBox | None]) -> TensorBox:
    """`x[indices]`: integer tensors broadcast together, None keeps a dimension."""
    return _indexed(x, indices, wrap=True)


def _indexed(x: TensorBox, indices: Sequence[TensorBox | None], wrap: bool) -> TensorBox:
    places, load = IndexPlaces(x, indices), x.make_loader()
    return like(x, places.size, lambda index: load(places.source(index, wrap)))


class IndexPlaces:
    """The places of the elements of `x[indices]` in `x`; `size` is the size of the result.

    The broadcast dimensions stand where the tensors stood if these are neighbours, else in front.
    """

    def __init__(self, x: TensorBox, indices: Sequence[TensorBox | None]) -> None:
        given = {dim: box for dim, box in enumerate(indices) if box is not None}
        if any(box.dtype in (torch.bool, torch.uint8) for box in given.values()):
            raise NoLoopForm("a mask as index")
        self.common = broadcast_sizes([box.size for box in given.values()])
        self.loaders = {d: expand(box, self.common).make_loader() for d, box in given.items()}
        first, last = min(given), max(given)  # neighbours stay where they are
        self.place = first if last - first + 1 == len(given) else 0
        self.full = x.size
        kept = tuple(n for dim, n in enumerate(x.size) if dim not in given)
        self.size: Size = (*kept[: self.place], *self.common, *kept[self.place :])

    def source(self, index: Index, wrap: bool) -> Index:
        """Return the index into `x` of an element of the result."""
        end = self.place + len(self.common)
        selector, rest = index[self.place : end], iter((*index[: self.place], *index[end:]))

        def coordinate(dim: int) -> Expr:
            load = self.loaders.get(dim)
            if load is None:
                return next(rest)
            return ops.indirect_indexing(load(selector), self.full[dim], wrap=wrap)

        return [coordinate(dim) for dim in range(len(self.full))]


@lowering(aten.gather)
def gather(x: TensorBox, dim: int, index: TensorBox, sparse_grad: bool = False) -> TensorBox:
    """`out[.., i, ..] = x[.., index[.., i, ..], ..]`"""
    if x.ndim == 0 or index.ndim == 0:
        flat = gather(reshape(x, (-1,)), 0, reshape(index, (-1,)))
        return reshape(flat, index.size)
    dim = normalize_dim(dim, x.ndim)
    load, load_index = x.make_loader(), index.make_loader()

    def inner_fn(position: Index) -> Value:
        chosen = ops.indirect_indexing(load_index(position), x.size[dim], wrap=False)
        return load((*position[:dim], chosen, *position[dim + 1 :]))

    return like(x, index.size, inner_fn)


@lowering(aten.index_select)
def index_select(x: TensorBox, dim: int, index: TensorBox) -> TensorBox:
    """Select the positions of one dimension that a vector names."""
    if x.ndim == 0:
        return reshape(index_select(reshape(x, (-1,)), 0, index), ())
    flat = index if index.ndim else unsqueeze(index, 0)
    return _indexed(x, [None] * normalize_dim(dim, x.ndim) + [flat], wrap=False)


@lowering(aten.take)
def take(x: TensorBox, index: TensorBox) -> TensorBox:
    """Take elements of the flattened tensor."""
    return index_tensor(reshape(x, (-1,)), [index])


@lowering(aten.embedding)
def embedding(
    weight: TensorBox,
    indices: TensorBox,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> TensorBox:
    """Return the rows of `weight` that `indices` name."""
    return _indexed(weight, [indices], wrap=False)


# -- results that differ from a tensor in one region --------------------------------------------


@lowering(aten.slice_scatter)
def slice_scatter(
    x: TensorBox,
    source: TensorBox,
    dim: int = 0,
    start: Expr | None = None,
    end: Expr | None = None,
    step: int = 1,
) -> TensorBox:
    """`x` with `x[start:end:step]` of a dimension replaced by `source`."""
    dim = normalize_dim(dim, x.ndim)
    return _put_slice(x, source, dim, first_position(start, x.size[dim]), step)


def _put_slice(x: TensorBox, source: TensorBox, dim: int, begin: Expr, step: int) -> TensorBox:
    """`source` in every `step`-th position of a dimension, from `begin`, counted from the front."""
    load, load_source = x.make_loader(), cast(source, x.dtype).make_loader()
    count = source.size[dim]

    def inner_fn(index: Index) -> Value:
        inside = _in_slice(index[dim], begin, step, count)
        step_index = floor_div(to_expr(index[dim] - begin), step)
        position = (*index[:dim], step_index, *index[dim + 1 :])
        return ops.where(inside, ops.masked(inside, lambda: load_source(position), 0), load(index))

    return like(x, x.size, inner_fn)


def _in_slice(position: Expr, begin: Expr, step: int, count: Expr) -> Value:
    """Return whether a position is one of the `count` positions `begin, begin + step, ...`."""
    value = ops.index_expr(position, torch.int64)
    end = to_expr(begin + (count - 1) * step + 1)
    inside = ops.logical_and(
        ops.ge(value, ops.index_expr(begin, torch.int64)),
        ops.lt(value, ops.index_expr(end, torch.int64)),
    )
    if step == 1:
        return inside
    # Only positions past `begin` count, so a multiple of step may be added to stay positive.
    rest = modular_indexing(to_expr(position + begin * (step - 1)), 1, step)
    on_step = ops.eq(ops.index_expr(rest, torch.int64), ops.constant(0, torch.int64))
    return ops.logical_and(inside, on_step)


@lowering(aten.select_scatter)
def select_scatter(x: TensorBox, source: TensorBox, dim: int, position: Expr) -> TensorBox:
    """`x` with one position of a dimension replaced by `source`."""
    dim = normalize_dim(dim, x.ndim)
    return _put_slice(x, unsqueeze(source, dim), dim, from_front(position, x.size[dim]), 1)
