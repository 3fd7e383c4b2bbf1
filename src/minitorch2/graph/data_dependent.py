"""Operators whose result's size or value depends on data, on fake tensors.

    nonzero(x)            [u, x.dim()]     0 <= u <= x.numel()
    masked_select(x, m)   [u]
    x[mask]               as x[mask.nonzero()]: u rows
    unique(x)             [u]
    x.item()              the number u itself

``u`` is an unbacked symbol, which `minitorch2.graph.symbols.unbacked` gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from minitorch2.graph.symbols.conditions import compare
from minitorch2.graph.symbols.expression import expr_of
from minitorch2.graph.symbols.ranges import ANY, Range
from minitorch2.graph.symbols.sym_node import SymNode
from minitorch2.graph.symbols.unbacked import UnbackedSymbols
from minitorch2.native.torch_internals.operators import OpOverload

aten = torch.ops.aten


class NoSymbolicForm(Exception):
    """Sizes and numbers alone do not determine the form of this call's result."""


def meta(
    sizes: Sequence[Any], dtype: torch.dtype, strides: Sequence[Any] | None = None
) -> torch.Tensor:
    """Return a meta tensor; contiguous unless strides are given."""
    if strides is None:
        return torch.empty(tuple(sizes), dtype=dtype, device="meta")
    return torch.empty_strided(tuple(sizes), tuple(strides), dtype=dtype, device="meta")


def counted(symbols: UnbackedSymbols, x: Tensor, *, least: int = 0, same: bool = False) -> Any:
    """Return a size between `least` and the number of elements of a tensor.

    With ``same``, one tensor that has not changed gives one size, however often it is counted.
    """
    most = x.numel()
    limits = Range(least, most if isinstance(most, int) else math.inf)
    size = symbols.size(limits, x if same else None)
    if not isinstance(most, int):
        symbols.env.knowledge.learn(compare("<=", expr_of(size), expr_of(most)))
    return size


def nonzero(symbols: UnbackedSymbols, x: Tensor) -> Tensor:
    """Return the positions of elements that are not 0: a matrix that is stored by columns."""
    count = counted(symbols, x, same=True)
    return meta((count, x.dim()), torch.int64, (1, count))


def masked_select(symbols: UnbackedSymbols, x: Tensor, mask: Tensor) -> Tensor:
    """Return the elements at which a mask is set; both are broadcast."""
    shape = torch.broadcast_shapes(x.shape, mask.shape)  # type: ignore[no-untyped-call]
    is_whole = tuple(map(expr_of, shape)) == tuple(map(expr_of, mask.shape))
    if not is_whole:
        mask = mask.expand(shape)
    return meta((counted(symbols, mask, same=is_whole),), x.dtype)


def index(symbols: UnbackedSymbols, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """``x[mask]``: the same as with the positions at which the mask is set."""
    given = [i for i in indices if i is not None]
    if len(given) != 1:
        raise NoSymbolicForm("a mask among several indices")
    (mask,) = given
    place = indices.index(mask) if len(indices) > 1 else 0
    for size, dim in zip(mask.shape, range(place, place + mask.dim()), strict=True):
        if not size == x.shape[dim]:
            raise IndexError(f"the mask's shape {list(mask.shape)} is not that of the tensor")
    count = counted(symbols, mask, same=True)
    sizes = (*x.shape[:place], count, *x.shape[place + mask.dim() :])
    return meta(sizes, x.dtype)


def unique(
    symbols: UnbackedSymbols,
    x: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> tuple[Tensor, ...]:
    """``unique``: the values, the place of each element among them, how often each occurs."""
    if x.requires_grad:
        raise NoSymbolicForm("PyTorch has no derivative of unique")
    count = _distinct(symbols, x, x.numel())
    inverse = x.shape if return_inverse else (0,)
    counts = (count,) if return_counts else (0,)
    return meta((count,), x.dtype), meta(inverse, torch.int64), meta(counts, torch.int64)


def unique_consecutive(
    symbols: UnbackedSymbols,
    x: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> tuple[Tensor, ...]:
    """Do the same as `unique` for runs of equal elements."""
    if dim is not None:
        return unique_dim(symbols, x, dim)
    return unique(symbols, x, True, return_inverse, return_counts)


def unique_dim(symbols: UnbackedSymbols, x: Tensor, dim: int, *_: bool) -> tuple[Tensor, ...]:
    """Refuse to tell the form of distinct slices."""
    raise NoSymbolicForm("distinct slices, whose strides only the operator knows")


def _distinct(symbols: UnbackedSymbols, x: Tensor, most: Any) -> Any:
    return counted(symbols, x, least=1 if isinstance(most, int) and most > 0 else 0)


def repeat_interleave(symbols: UnbackedSymbols, repeats: Tensor, **_: Any) -> Tensor:
    """Return position i ``repeats[i]`` times."""
    return meta((symbols.size(Range(0, math.inf)),), repeats.dtype)


def bincount(
    symbols: UnbackedSymbols, x: Tensor, weights: Tensor | None = None, minlength: int = 0
) -> Tensor:
    """Count how often each integer occurs, from 0 to the greatest one in `x`."""
    least = minlength if isinstance(minlength, int) else 0
    dtype = torch.int64 if weights is None else torch.float64
    if weights is not None and weights.dtype == torch.float32:
        dtype = torch.float32
    return meta((symbols.size(Range(least, math.inf)),), dtype)


def item(symbols: UnbackedSymbols, x: Tensor) -> Any:
    """Return the number that a tensor of one element holds."""
    if x.dtype == torch.bool:
        node = SymNode(symbols.env, expr_of(symbols.number(int, Range(0, 1))), int)
        return torch.SymBool(node.eq(node.wrap_int(1)))  # type: ignore[attr-defined, no-untyped-call]
    if x.dtype.is_floating_point:
        return symbols.number(float)
    if x.dtype.is_complex or x.is_quantized:
        raise NoSymbolicForm("a complex number")
    limits = torch.iinfo(x.dtype)
    is_long = x.dtype in (torch.int64, torch.uint64)
    return symbols.number(int, ANY if is_long else Range(limits.min, limits.max))


DATA_DEPENDENT: Final[dict[OpOverload, Callable[..., Any]]] = {
    aten._local_scalar_dense.default: item,
    aten.bincount.default: bincount,
    aten.index.Tensor: index,
    aten.masked_select.default: masked_select,
    aten.nonzero.default: nonzero,
    aten.repeat_interleave.Tensor: repeat_interleave,
    aten._unique2.default: unique,
    aten.unique_consecutive.default: unique_consecutive,
    aten.unique_dim.default: unique_dim,
}
"""What gives the result's form; operators with other results that depend on data are refused."""
