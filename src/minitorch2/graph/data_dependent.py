"""Operators whose result's size or value depends on data, on fake tensors.

    nonzero(x)            [u, x.dim()]     0 <= u <= x.numel()
    masked_select(x, m)   [u]
    x[mask]               as x[mask.nonzero()]: u rows
    unique(x)             [u]
    x.item()              the number u itself

``u`` is an unbacked symbol, which `minitorch2.graph.symbols.unbacked` gives. It is the same one for
equal elements: those of one tensor until a write, and those that equal operators compute of equal
ones. ``x[x > 0] * x[x > 0]`` has one count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import torch
from torch import Tensor

from minitorch2.graph.symbols.conditions import compare
from minitorch2.graph.symbols.expression import argument_key, expr_of
from minitorch2.graph.symbols.ranges import ANY, Range
from minitorch2.graph.symbols.sym_node import SymNode
from minitorch2.graph.symbols.unbacked import UnbackedSymbols, current_symbols
from minitorch2.native.torch_internals.operators import OpOverload

aten = torch.ops.aten


_REPEATING: Final = frozenset(
    """_to_copy _unique2 arange cat full gather index index_select masked_select nonzero ones zeros
    """.split()  # noqa: SIM905  (reads as a table)
)
"""Operators that repeat their results to the last bit, besides those that a tag or a view tells."""


@cache
def _repeats(func: OpOverload) -> bool:
    """Return whether an operator gives equal elements for equal ones, in memory of any device."""
    schema, tags = func._schema, func.tags
    if schema.is_mutable or torch.Tag.nondeterministic_seeded in tags:
        return False
    is_told = torch.Tag.pointwise in tags or torch.Tag.reduction in tags
    is_told |= any(result.alias_info is not None for result in schema.returns)
    return func.overloadpacket.__name__ in _REPEATING or (is_told and len(schema.returns) == 1)


def mark_elements(
    func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[Any]
) -> None:
    """Give fake results of equal calls equal marks of their elements, where symbols are made."""
    symbols = current_symbols()
    if symbols is None or not _repeats(func):
        return
    call = argument_key((args, kwargs), _mark)
    for place, fake in enumerate(results):
        if isinstance(fake, torch.Tensor):
            key = (func, call, place, fake.dtype, fake.device)
            mark = symbols.env.computed.setdefault(key, object())
            vars(fake.meta).setdefault("elements", mark)  # type: ignore[attr-defined]


def _mark(tensor: Any) -> object:
    """Return the mark of an argument's elements; those of a real tensor equal no others."""
    return getattr(tensor, "elements", None) or object()


class NoSymbolicForm(Exception):
    """Sizes and numbers alone do not determine the form of this call's result."""


def meta(
    sizes: Sequence[Any], dtype: torch.dtype, strides: Sequence[Any] | None = None
) -> torch.Tensor:
    """Return a meta tensor; contiguous unless strides are given."""
    if strides is None:
        return torch.empty(tuple(sizes), dtype=dtype, device="meta")
    return torch.empty_strided(tuple(sizes), tuple(strides), dtype=dtype, device="meta")


def counted(symbols: UnbackedSymbols, x: Any, *kind: str, least: int = 0) -> Any:
    """Return a size between `least` and the number of elements of a tensor.

    Equal elements that are counted for the same ``kind`` of result give one size.
    """
    most = x.numel()
    limits = Range(least, most if isinstance(most, int) else math.inf)
    size = symbols.number(int, limits, *kind, x.elements)
    if not isinstance(most, int):
        symbols.env.knowledge.learn(compare("<=", expr_of(size), expr_of(most)))
    return size


def nonzero(symbols: UnbackedSymbols, x: Tensor) -> Tensor:
    """Return the positions of elements that are not 0: a matrix that is stored by columns."""
    count = counted(symbols, x)
    return meta((count, x.dim()), torch.int64, (1, count))


def masked_select(symbols: UnbackedSymbols, x: Tensor, mask: Tensor) -> Tensor:
    """Return the elements at which a mask is set; both are broadcast."""
    shape = torch.broadcast_shapes(x.shape, mask.shape)  # type: ignore[no-untyped-call]
    if tuple(map(expr_of, shape)) != tuple(map(expr_of, mask.shape)):
        mask = mask.expand(shape)
    return meta((counted(symbols, mask),), x.dtype)


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
    count = counted(symbols, mask)
    sizes = (*x.shape[:place], count, *x.shape[place + mask.dim() :])
    return meta(sizes, x.dtype)


def unique(
    symbols: UnbackedSymbols,
    x: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    kind: str = "distinct",
) -> tuple[Tensor, ...]:
    """``unique``: the values, the place of each element among them, how often each occurs."""
    if x.requires_grad:
        raise NoSymbolicForm("PyTorch has no derivative of unique")
    most = x.numel()
    least = 1 if isinstance(most, int) and most > 0 else 0
    count = counted(symbols, x, kind, least=least)
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
    return unique(symbols, x, True, return_inverse, return_counts, "runs")


def unique_dim(symbols: UnbackedSymbols, x: Tensor, dim: int, *_: bool) -> tuple[Tensor, ...]:
    """Refuse to tell the form of distinct slices."""
    raise NoSymbolicForm("distinct slices, whose strides only the operator knows")


def repeat_interleave(symbols: UnbackedSymbols, repeats: Tensor, **_: Any) -> Tensor:
    """Return position i ``repeats[i]`` times."""
    return meta((symbols.number(int, Range(0, math.inf)),), repeats.dtype)


def bincount(
    symbols: UnbackedSymbols, x: Tensor, weights: Tensor | None = None, minlength: int = 0
) -> Tensor:
    """Count how often each integer occurs, from 0 to the greatest one in `x`."""
    least = minlength if isinstance(minlength, int) else 0
    dtype = torch.int64 if weights is None else torch.float64
    if weights is not None and weights.dtype == torch.float32:
        dtype = torch.float32
    return meta((symbols.number(int, Range(least, math.inf)),), dtype)


def item(symbols: UnbackedSymbols, x: Any) -> Any:
    """Return the number that a tensor of one element holds."""
    if x.dtype == torch.bool:
        number = symbols.number(int, Range(0, 1), "item", x.elements)
        node = SymNode(symbols.env, expr_of(number), int)
        return torch.SymBool(node.eq(node.wrap_int(1)))  # type: ignore[attr-defined, no-untyped-call]
    if x.dtype.is_floating_point:
        return symbols.number(float, ANY, "item", x.elements)
    if x.dtype.is_complex or x.is_quantized:
        raise NoSymbolicForm("a complex number")
    limits = torch.iinfo(x.dtype)
    is_long = x.dtype in (torch.int64, torch.uint64)
    range = ANY if is_long else Range(limits.min, limits.max)
    return symbols.number(int, range, "item", x.elements)


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
