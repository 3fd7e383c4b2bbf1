"""Views of tensors as functions on indices: permute, expand, slice, select, reshape, ...

Each function takes a `TensorBox` and gives one that reads the same elements; nothing is computed.
Dimensions may be negative, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy

from minitorch2.errors import LoweringError
from minitorch2.graph.symbols.polynomials import multiply_out
from minitorch2.loopir.boxes import Reindex, TensorBox
from minitorch2.loopir.expressions import Expr, equal, floor_div, modular_indexing, product, to_expr
from minitorch2.loopir.layout import Size
from minitorch2.loopir.loops import Index


def normalize_dim(dim: int, ndim: int) -> int:
    """Return a dimension counted from the front. 0-dim tensors accept 0 and -1."""
    return dim % max(ndim, 1)


def broadcast_sizes(sizes: Sequence[Size]) -> Size:
    """Return the common size of an elementwise operation.

    Two different symbolic sizes that meet are equal: capture has guarded it.

    Raises:
        LoweringError: two known sizes differ and neither is 1.
    """
    ndim = max((len(size) for size in sizes), default=0)
    padded = [(1,) * (ndim - len(size)) + tuple(size) for size in sizes]
    return tuple(_broadcast_dim(column) for column in zip(*padded, strict=True))


def _broadcast_dim(column: Sequence[Expr]) -> Expr:
    extents = [extent for extent in column if extent != 1]
    numbers = {extent for extent in extents if isinstance(extent, int)}
    if len(numbers) > 1:
        raise LoweringError(f"sizes {sorted(numbers)} do not broadcast")
    return next(iter(numbers), extents[0] if extents else 1)


def expand(x: TensorBox, size: Sequence[Expr]) -> TensorBox:
    """Repeat dimensions of size 1, and add leading ones; -1 keeps a size."""
    extra = len(size) - x.ndim
    target = tuple(x.size[i - extra] if extent == -1 else extent for i, extent in enumerate(size))
    if target == x.size:
        return x
    repeated = [x.size[i] == 1 for i in range(x.ndim)]

    def reindex(index: Index) -> Index:
        kept = index[extra:]
        return tuple(0 if r else i for r, i in zip(repeated, kept, strict=True))

    return x.view(target, reindex)


def permute(x: TensorBox, dims: Sequence[int]) -> TensorBox:
    """Dimension `i` of the result is dimension `dims[i]` of `x`."""
    order = [normalize_dim(dim, x.ndim) for dim in dims]
    if order == list(range(x.ndim)):
        return x

    def reindex(index: Index) -> Index:
        inner: list[Expr] = [0] * len(order)
        for position, dim in zip(index, order, strict=True):
            inner[dim] = position
        return tuple(inner)

    return x.view(tuple(x.size[dim] for dim in order), reindex)


def select(x: TensorBox, dim: int, position: Expr) -> TensorBox:
    """Fix dimension `dim` at `position`, which counts from the front, and drop it."""
    dim = normalize_dim(dim, x.ndim)
    size = x.size[:dim] + x.size[dim + 1 :]
    return x.view(size, lambda index: (*index[:dim], position, *index[dim:]))


def slice_(x: TensorBox, dim: int, start: Expr, length: Expr, step: int = 1) -> TensorBox:
    """`length` elements of dimension `dim` from `start` (not negative) in steps of `step`."""
    dim = normalize_dim(dim, x.ndim)
    if start == 0 and step == 1 and equal(length, x.size[dim]):
        return x

    def reindex(index: Index) -> Index:
        return (*index[:dim], to_expr(index[dim] * step + start), *index[dim + 1 :])

    return x.view((*x.size[:dim], length, *x.size[dim + 1 :]), reindex)


def squeeze(x: TensorBox, dims: int | Sequence[int] | None = None) -> TensorBox:
    """Drop dimensions of size 1: those in `dims`, or all."""
    dims = [dims] if isinstance(dims, int) else dims
    chosen = range(x.ndim) if dims is None else [normalize_dim(dim, x.ndim) for dim in dims]
    dropped = {dim for dim in chosen if x.ndim and x.size[dim] == 1}
    if not dropped:
        return x

    def reindex(index: Index) -> Index:
        kept = iter(index)
        return tuple(0 if dim in dropped else next(kept) for dim in range(x.ndim))

    return x.view(tuple(n for dim, n in enumerate(x.size) if dim not in dropped), reindex)


def unsqueeze(x: TensorBox, dim: int) -> TensorBox:
    """Insert a dimension of size 1 before `dim`."""
    dim = dim % (x.ndim + 1)
    size = (*x.size[:dim], 1, *x.size[dim:])
    return x.view(size, lambda index: (*index[:dim], *index[dim + 1 :]))


def flip(x: TensorBox, dims: Sequence[int]) -> TensorBox:
    """Reverse dimensions."""
    flipped = {normalize_dim(dim, x.ndim) for dim in dims} if x.ndim else set()

    def reindex(index: Index) -> Index:
        return tuple(
            to_expr(x.size[dim] - 1 - i) if dim in flipped else i for dim, i in enumerate(index)
        )

    return x.view(x.size, reindex)


def diagonal(x: TensorBox, offset: int, dim1: int, dim2: int, length: Expr) -> TensorBox:
    """Return the elements with `index[dim2] - index[dim1] == offset`, as a new last dimension."""
    first, second = normalize_dim(dim1, x.ndim), normalize_dim(dim2, x.ndim)
    others = [dim for dim in range(x.ndim) if dim not in (first, second)]

    def reindex(index: Index) -> Index:
        inner: list[Expr] = [0] * x.ndim
        for dim, position in zip(others, index[:-1], strict=True):
            inner[dim] = position
        inner[first] = to_expr(index[-1] - min(offset, 0))
        inner[second] = to_expr(index[-1] + max(offset, 0))
        return tuple(inner)

    return x.view((*(x.size[dim] for dim in others), length), reindex)


def maximum(a: Expr, b: Expr) -> Expr:
    """Return the larger of two expressions."""
    return to_expr(sympy.Max(a, b))


def reshape(x: TensorBox, size: Sequence[Expr]) -> TensorBox:
    """Return the same elements in row-major order in another size; one extent may be -1."""
    target = infer_size(x.size, size)
    if len(target) == x.ndim and all(map(equal, target, x.size)):
        return x
    return x.view(target, reshape_reindex(x.size, target))


def infer_size(old: Size, size: Sequence[Expr]) -> Size:
    """Return `size` with its -1, if any, replaced by the number of elements left."""
    if -1 not in size:
        return tuple(size)
    known = product(extent for extent in size if extent != -1)
    return tuple(floor_div(product(old), known) if extent == -1 else extent for extent in size)


def reshape_reindex(old: Size, new: Size) -> Reindex:
    """Return the function from indices of `new` to indices of `old`, as local as possible.

    Dimensions are cut into the smallest groups of equal products, so that index arithmetic stays
    inside a group: (B, H*D) -> (B, H, D) leaves B alone and never divides.
    """
    groups = _matching_groups(old, new)

    def reindex(index: Index) -> Index:
        inner: list[Expr] = []
        for old_dims, new_dims in groups:
            flat = flat_index(index[new_dims], new[new_dims])
            inner += coordinates(flat, old[old_dims])
        return tuple(inner)

    return reindex


def _matching_groups(old: Size, new: Size) -> list[tuple[slice, slice]]:
    groups = []
    i = j = 0
    while i < len(old) or j < len(new):
        end_i, end_j = _smallest_group(old, new, i, j)
        groups.append((slice(i, end_i), slice(j, end_j)))
        i, j = end_i, end_j
    return groups


def _smallest_group(old: Size, new: Size, i: int, j: int) -> tuple[int, int]:
    """Return the ends of the shortest runs from `i` and `j` with equal products, or of the rest."""
    left = [(end, product(old[i:end])) for end in range(i, len(old) + 1)]
    right = [(end, product(new[j:end])) for end in range(j, len(new) + 1)]
    pairs = [(a, b) for a, p in left for b, q in right if (a > i or b > j) and equal(p, q)]
    # The sizes after a group must match, too: a 0 makes products misleading.
    exhausted = [(i, j) for i, j in pairs if equal(product(old[i:]), product(new[j:]))]
    return min(exhausted, key=sum, default=(len(old), len(new)))


def flat_index(index: Index, size: Size) -> Expr:
    """Number the elements of a shape row by row, and give the number at `index`."""
    flat: Expr = 0
    for position, extent in zip(index, size, strict=True):
        flat = flat * extent + position
    return to_expr(multiply_out(flat)) if isinstance(flat, sympy.Expr) else flat


def coordinates(flat: Expr, size: Size) -> list[Expr]:
    """Give the index of element number `flat` of a shape whose elements are numbered by rows."""
    # The first needs no modulus: it is in range.
    if len(size) == 1:
        return [flat]
    result: list[Expr] = []
    for dim, extent in enumerate(size):
        below = product(size[dim + 1 :])
        first = all(n == 1 for n in size[:dim])
        if extent == 1:
            result.append(0)
        elif first:
            result.append(floor_div(flat, below))
        else:
            result.append(modular_indexing(flat, below, extent))
    return result
