"""Views, creation, indexing and matrix products in one canonical form each.

Transposes become ``permute``, several views at once become one view each, and every way of
making a constant tensor becomes ``full``: later layers then know one operator instead of many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from minitorch2.autograd.decompositions.registry import register_decomposition
from minitorch2.graph.symbols import same_sizes

aten = torch.ops.aten


# Views


@register_decomposition(aten.t.default)
def t(x: Tensor) -> Tensor:
    """Exchange the two dimensions of a matrix."""
    return x.permute(1, 0) if x.dim() == 2 else x.view_as(x)


@register_decomposition(aten.transpose.int)
def transpose(x: Tensor, first: int, second: int) -> Tensor:
    """Exchange two dimensions."""
    if x.dim() == 0:
        return x.view_as(x)
    order = list(range(x.dim()))
    order[first], order[second] = order[second], order[first]
    return x.permute(order)


@register_decomposition(aten.split.Tensor, aten.unsafe_split.Tensor)
def split(x: Tensor, size: int, dim: int = 0) -> list[Tensor]:
    """Return slices of ``size`` along ``dim``; the last may be shorter."""
    total = x.shape[dim]
    if total == 0:
        return [x.view_as(x)]
    return [x.narrow(dim, start, min(size, total - start)) for start in range(0, int(total), size)]


@register_decomposition(aten.split_with_sizes.default, aten.unsafe_split_with_sizes.default)
def split_with_sizes(x: Tensor, sizes: Sequence[int], dim: int = 0) -> list[Tensor]:
    """Return slices of the given sizes along ``dim``."""
    parts, start = [], 0
    for size in sizes:
        parts.append(x.narrow(dim, start, size))
        start = start + size
    return parts


@register_decomposition(aten.unbind.int)
def unbind(x: Tensor, dim: int = 0) -> list[Tensor]:
    """Return one tensor for each index along ``dim``."""
    return [x.select(dim, index) for index in range(x.shape[dim])]


@register_decomposition(aten._unsafe_view.default, aten._reshape_alias.default)
def unsafe_view(x: Tensor, size: Sequence[int], *stride: Any) -> Tensor:
    """Return a view whose base the program does not keep."""
    return x.view(list(size))


def _register_copy(name: str, overload: str) -> None:
    """Register `aten.<name>_copy` as the view `aten.<name>` and a copy."""
    view = getattr(getattr(aten, name), overload)

    @register_decomposition(getattr(getattr(aten, f"{name}_copy"), overload))
    def copied(*args: Any, **kwargs: Any) -> Any:
        """Return a copy of the view, or of each of the views."""
        result = view(*args, **kwargs)
        if isinstance(result, Tensor):
            return result.clone(memory_format=torch.contiguous_format)
        return [part.clone(memory_format=torch.contiguous_format) for part in result]


for _name, _overload in (
    ("view", "default"), ("permute", "default"), ("transpose", "int"), ("t", "default"),
    ("expand", "default"), ("unsqueeze", "default"), ("squeeze", "default"), ("squeeze", "dim"),
    ("squeeze", "dims"), ("select", "int"), ("slice", "Tensor"), ("split", "Tensor"),
    ("split_with_sizes", "default"), ("unbind", "int"), ("diagonal", "default"),
    ("unfold", "default"), ("alias", "default"), ("detach", "default"),
    ("as_strided", "default"), ("lift_fresh", "default"),
):  # fmt: skip
    _register_copy(_name, _overload)


@register_decomposition(aten.stack.default, aten._stack.default)
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Concatenation along a new dimension."""
    return torch.cat([x.unsqueeze(dim) for x in tensors], dim)


@register_decomposition(aten.select_backward.default)
def select_backward(grad: Tensor, sizes: Sequence[int], dim: int, index: int) -> Tensor:
    """Return zeros with the gradient at one index."""
    return torch.select_scatter(grad.new_zeros(sizes), grad, dim, index)


@register_decomposition(aten.slice_backward.default)
def slice_backward(
    grad: Tensor, sizes: Sequence[int], dim: int, start: int, end: int, step: int
) -> Tensor:
    """Return zeros with the gradient in a slice, or the gradient itself for a whole dimension."""
    if same_sizes(grad.shape, sizes):
        return grad.view_as(grad)
    return torch.slice_scatter(grad.new_zeros(sizes), grad, dim, start, end, step)


@register_decomposition(aten.diagonal_backward.default)
def diagonal_backward(
    grad: Tensor, sizes: Sequence[int], offset: int, dim1: int, dim2: int
) -> Tensor:
    """Return zeros with the gradient on a diagonal."""
    return torch.diagonal_scatter(grad.new_zeros(sizes), grad, offset, dim1, dim2)


# Creation


def _full_as(x: Tensor, size: Sequence[int], value: Any, options: dict[str, Any]) -> Tensor:
    kind = {"dtype": x.dtype, "device": x.device}
    return _full(size, value, kind | {name: o for name, o in options.items() if o is not None})


def _like(x: Tensor, value: Any, options: dict[str, Any]) -> Tensor:
    order = _storage_order(x, options.get("memory_format") or torch.preserve_format)
    if order == list(range(x.dim())):
        return _full_as(x, x.shape, value, options)
    plain = _full_as(x, [x.shape[d] for d in order], value, options)
    return plain.permute([order.index(d) for d in range(x.dim())])


def _storage_order(x: Tensor, layout: torch.memory_format) -> list[int]:
    """Return the dimensions of a new tensor like ``x``, outermost in memory first."""
    plain = list(range(x.dim()))
    if layout in (torch.channels_last, torch.channels_last_3d):
        return [0, *plain[2:], 1]
    if layout is torch.contiguous_format or x.is_contiguous():
        return plain
    inner = plain[::-1]
    for start in range(1, x.dim()):
        _sink(x, inner, start)
    return inner[::-1]


def _sink(x: Tensor, inner: list[int], place: int) -> None:
    """Move a dimension towards the inner ones while its steps are shorter than theirs."""
    for other in range(place - 1, -1, -1):
        step, before = x.stride()[inner[place]], x.stride()[inner[other]]
        if step == 0 or before == 0:
            continue  # a repeated dimension says nothing about the order
        if step > before or (step == before and x.shape[inner[place]] >= x.shape[inner[other]]):
            return
        inner[place], inner[other] = inner[other], inner[place]
        place = other


def _register_constant(name: str, value: int) -> None:
    """Register `aten.<name>`, `aten.<name>_like` and `aten.new_<name>`, full of a number."""

    @register_decomposition(getattr(aten, name).default)
    def new(size: Sequence[int], **options: Any) -> Tensor:
        """Return the number in a size."""
        return _full(size, value, options)

    @register_decomposition(getattr(aten, f"{name}_like").default)
    def like(x: Tensor, **options: Any) -> Tensor:
        """Return the number in the layout of ``x``."""
        return _like(x, value, options)

    @register_decomposition(getattr(aten, f"new_{name}").default)
    def of_dtype(x: Tensor, size: Sequence[int], **options: Any) -> Tensor:
        """Return the number in another size, in the dtype and on the device of ``x``."""
        return _full_as(x, size, value, options)


_register_constant("zeros", 0)
_register_constant("ones", 1)


@register_decomposition(aten.full_like.default)
def full_like(x: Tensor, value: Any, **options: Any) -> Tensor:
    """Return one value in the layout of ``x``."""
    return _like(x, value, options)


@register_decomposition(aten.new_full.default)
def new_full(x: Tensor, size: Sequence[int], value: Any, **options: Any) -> Tensor:
    """Return one value in another size."""
    return _full_as(x, size, value, options)


@register_decomposition(aten.scalar_tensor.default)
def scalar_tensor(value: Any, **options: Any) -> Tensor:
    """Return a number as a tensor without dimensions."""
    return _full((), float(value) if options.get("dtype") is None else value, options)


def _full(size: Sequence[int], value: Any, options: dict[str, Any]) -> Tensor:
    dtype = options.get("dtype") or torch.get_default_dtype()
    device = options.get("device") or torch.get_default_device()
    # `torch.full` would start CUDA, and a trace may have fake tensors on a GPU that is not here.
    result: Tensor = aten.full.default(list(size), value, dtype=dtype, device=device)
    return result


@register_decomposition(aten.arange.default)
def arange(end: Any, **options: Any) -> Tensor:
    """0, 1, ..., end - 1."""
    return arange_start(0, end, **options)


@register_decomposition(aten.arange.start)
def arange_start(start: Any, end: Any, **options: Any) -> Tensor:
    """start, start + 1, ..., end - 1."""
    result: Tensor = aten.arange.start_step(start, end, 1, **options)
    return result


@register_decomposition(aten.tril.default)
def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """``x`` on and below a diagonal, 0 above."""
    return torch.where(_below_diagonal(x, diagonal), x, _zero_like(x))


@register_decomposition(aten.triu.default)
def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """``x`` on and above a diagonal, 0 below."""
    return torch.where(_below_diagonal(x, diagonal - 1), _zero_like(x), x)


def _zero_like(x: Tensor) -> Tensor:
    """Return a zero of the same dtype: the number 0 would promote a bool mask to int64."""
    return torch.zeros((), dtype=x.dtype, device=x.device)


def _below_diagonal(x: Tensor, diagonal: int) -> Tensor:
    rows = torch.arange(x.shape[-2], device=x.device).unsqueeze(-1)
    columns = torch.arange(x.shape[-1], device=x.device)
    return columns <= rows + diagonal


# Indexing


@register_decomposition(aten._index_put_impl.default)
def index_put_impl(
    x: Tensor,
    indices: Sequence[Any],
    values: Tensor,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Tensor:
    """Return values written (or added) at indices."""
    return torch.index_put(x, list(indices), values, accumulate)


@register_decomposition(aten._unsafe_index.Tensor)
def unsafe_index(x: Tensor, indices: Sequence[Any]) -> Tensor:
    """Indexing whose indices are known to be in range."""
    result: Tensor = aten.index.Tensor(x, list(indices))
    return result


# Matrix products


@register_decomposition(aten.baddbmm.default)
def baddbmm(x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """``beta * x + alpha * (a @ b)``; with ``beta == 0``, ``x`` is not read, so its NaNs are not
    either.
    """
    if not x.dtype.is_floating_point and not x.is_complex():
        beta, alpha = int(beta), int(alpha)  # integers scale by the integer part
    product = torch.bmm(a, b)
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    return product + (x if beta == 1 else x * beta)


@register_decomposition(aten.gather.default)
def gather(x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Any:
    """Return an empty result for an empty index, which need not have the rank of ``x``."""
    return x.new_empty(index.shape) if 0 in index.shape else NotImplemented


@register_decomposition(aten.scatter_add.default)
def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Any:
    """Add nothing for an empty index, which need not have the rank of ``x``."""
    return x.clone() if 0 in index.shape else NotImplemented
