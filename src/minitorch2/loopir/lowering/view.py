"""View operators: they cost nothing, since a view is a function on indices (see `loopir.views`).

`flip`, `roll` and `repeat` give new tensors.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from minitorch2.errors import LoweringError
from minitorch2.graph.symbols import expr_of
from minitorch2.graph.symbols.conditions import compare
from minitorch2.loopir import views
from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.buffers import InputBuffer, ReinterpretedBuffer, current_table
from minitorch2.loopir.expressions import Expr, is_less, is_nonnegative, modular_indexing, to_expr
from minitorch2.loopir.layout import FixedLayout
from minitorch2.loopir.loops import Index
from minitorch2.loopir.lowering.registry import NoLoopForm, lowering

aten = torch.ops.aten


@lowering(aten.alias, aten.detach, aten.lift_fresh)
def alias(x: TensorBox) -> TensorBox:
    """`x` itself."""
    return x


lowering(aten.view.default)(views.reshape)
lowering(aten.permute)(views.permute)
lowering(aten.unsqueeze)(views.unsqueeze)
lowering(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims)(views.squeeze)


@lowering(aten._reshape_copy)
def reshape_copy(x: TensorBox, size: Sequence[Expr]) -> TensorBox:
    """`reshape`; always a copy."""
    return views.reshape(x, size).copy()


@lowering(aten.expand)
def expand(x: TensorBox, size: Sequence[Expr], implicit: bool = False) -> TensorBox:
    """Repeat dimensions of size 1."""
    return views.expand(x, size)


@lowering(aten.select.int)
def select(x: TensorBox, dim: int, position: Expr) -> TensorBox:
    """Select one position of a dimension."""
    dim = views.normalize_dim(dim, x.ndim)
    return views.select(x, dim, from_front(position, x.size[dim]))


@lowering(aten.slice.Tensor)
def slice_(
    x: TensorBox, dim: int = 0, start: Expr | None = None, end: Expr | None = None, step: int = 1
) -> TensorBox:
    """Return a range of a dimension. The fake result has its length, so bounds are not clamped."""
    dim = views.normalize_dim(dim, x.ndim)
    length = expr_of(current_table().result.shape[dim])
    return views.slice_(x, dim, first_position(start, x.size[dim]), length, step)


def from_front(position: Expr, size: Expr) -> Expr:
    """Return a position that may be negative, counted from the front."""
    return position if _is_from_front(position) else to_expr(position + size)


def first_position(start: Expr | None, size: Expr) -> Expr:
    """Return the first position of a slice, from the front; one beyond the end selects nothing."""
    if start is None:
        return 0
    return start if _is_from_front(start) else positive_or_zero(to_expr(start + size))


def _is_from_front(position: Expr) -> bool:
    """Return whether a position counts from the front, not from the end.

    Raises:
        NoLoopForm: that is known at run time only.
    """
    if is_nonnegative(position):
        return True
    if is_nonnegative(to_expr(-position - 1)):
        return False
    known = current_table().known(compare(">=", position, 0))
    if known is None:
        raise NoLoopForm(f"{position} may count from the front or from the end")
    return known


def positive_or_zero(value: Expr) -> Expr:
    """`max(value, 0)`"""
    if is_nonnegative(value):
        return value
    return 0 if isinstance(value, int) else views.maximum(value, 0)


@lowering(aten.diagonal)
def diagonal(x: TensorBox, offset: int = 0, dim1: int = 0, dim2: int = 1) -> TensorBox:
    """Return a diagonal as a new last dimension."""
    length = expr_of(current_table().result.shape[-1])
    return views.diagonal(x, offset, dim1, dim2, length)


@lowering(aten.unfold)
def unfold(x: TensorBox, dim: int, size: int, step: int) -> TensorBox:
    """Cut a dimension into windows: element (.., i, .., j) is x[.., i * step + j, ..]."""
    if x.ndim == 0:
        raise NoLoopForm("a 0-dim tensor")
    dim = views.normalize_dim(dim, x.ndim)
    shape = tuple(map(expr_of, current_table().result.shape))

    def reindex(index: Index) -> Index:
        return (*index[:dim], to_expr(index[dim] * step + index[-1]), *index[dim + 1 : -1])

    return x.view(shape, reindex)


@lowering(aten.as_strided)
def as_strided(
    x: TensorBox, size: Sequence[Expr], stride: Sequence[Expr], offset: Expr | None = None
) -> TensorBox:
    """View any window on the storage of `x`, which must be laid out as in eager PyTorch.

    Raises:
        LoweringError: the window is not certain to lie inside the memory that the graph knows.
    """
    view = x.realize("as_strided addresses memory")
    if not x.storage.holds(view.buffer):
        raise LoweringError("as_strided of a view that eager PyTorch would have copied")
    base = view.buffer.fixed_layout()
    start = view.layout.offset if offset is None else _from_first_element(view.buffer, offset)
    window = FixedLayout(x.device, x.dtype, tuple(size), tuple(stride), start)
    if not is_nonnegative(start) or is_less(base.storage_size(), window.storage_size()):
        raise LoweringError("as_strided leaves the memory of its tensor")
    return TensorBox.create(ReinterpretedBuffer(view.name, window, view.buffer))


def _from_first_element(buffer: object, offset: Expr) -> Expr:
    """Convert an offset in PyTorch's storage to one from the first element, where memory starts."""
    if not isinstance(buffer, InputBuffer):
        return offset
    fake = buffer.origins[0].meta["val"]
    return to_expr(offset - expr_of(fake.storage_offset()))


@lowering(aten.flip)
def flip(x: TensorBox, dims: Sequence[int]) -> TensorBox:
    """Reverse dimensions in a copy."""
    return views.flip(x, dims).copy()


@lowering(aten.narrow_copy)
def narrow_copy(x: TensorBox, dim: int, start: Expr, length: Expr) -> TensorBox:
    """`length` positions of a dimension; a copy."""
    dim = views.normalize_dim(dim, x.ndim)
    return views.slice_(x, dim, first_position(start, x.size[dim]), length).copy()


@lowering(aten.roll)
def roll(x: TensorBox, shifts: Sequence[int], dims: Sequence[int] = ()) -> TensorBox:
    """Move elements along dimensions, around the end, in a copy."""
    if not dims:
        flat = views.reshape(x, (-1,))
        return views.reshape(roll(flat, shifts, (0,)), x.size)
    by_dim = dict.fromkeys(range(x.ndim), 0)
    for shift, dim in zip(shifts, dims, strict=True):
        by_dim[views.normalize_dim(dim, x.ndim)] += shift

    def reindex(index: Index) -> Index:
        return tuple(_rolled(index[d], by_dim[d], x.size[d]) for d in range(x.ndim))

    return x.view(x.size, reindex).copy()


@lowering(aten.repeat)
def repeat(x: TensorBox, repeats: Sequence[Expr]) -> TensorBox:
    """Return the tensor side by side with itself; a copy."""
    extra = len(repeats) - x.ndim
    inner = (*(1 for _ in range(extra)), *x.size)
    size = tuple(to_expr(n * r) for n, r in zip(inner, repeats, strict=True))

    def reindex(index: Index) -> Index:
        pairs = zip(index[extra:], x.size, repeats[extra:], strict=True)
        return tuple(i if r == 1 else modular_indexing(i, 1, n) for i, n, r in pairs)

    return x.view(size, reindex).copy()


def _rolled(position: Expr, shift: int, size: Expr) -> Expr:
    """`(position - shift) % size` with a dividend that is not negative."""
    if shift == 0 or size == 0:
        return position
    if isinstance(size, int):
        return modular_indexing(to_expr(position + -shift % size), 1, size)
    return modular_indexing(to_expr(position - shift + size * abs(shift)), 1, size)
