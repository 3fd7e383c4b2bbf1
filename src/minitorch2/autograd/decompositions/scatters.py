"""Values stored at computed places, as `scatter` and `scatter_add` of flat indices; maxima."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from minitorch2.autograd.decompositions.registry import register_decomposition

aten = torch.ops.aten


# Poolings note where in its plane each maximum was, as a flat index.


@register_decomposition(aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default)
def adaptive_max_pool(x: Tensor, output_size: list[int]) -> Any:
    """Decompose a pooling with equal windows side by side into an ordinary pooling."""
    sizes = x.shape[x.dim() - len(output_size) :]
    if any(n == 0 or size % n for size, n in zip(sizes, output_size, strict=True)):
        return NotImplemented
    window = [size // n for size, n in zip(sizes, output_size, strict=True)]
    pool = aten.max_pool2d_with_indices if len(window) == 2 else aten.max_pool3d_with_indices
    return pool(x, window, window)


@register_decomposition(
    aten.adaptive_max_pool2d_backward.default, aten.fractional_max_pool2d_backward.default
)
def max_pool2d_backward(gradient: Tensor, x: Tensor, *options: Any, indices: Any = None) -> Tensor:
    """Add the gradient of each maximum at its place in the image."""
    return _at_maxima(gradient, x, options[-1] if indices is None else indices, 2)


@register_decomposition(
    aten.adaptive_max_pool3d_backward.default, aten.max_pool3d_with_indices_backward.default
)
def max_pool3d_backward(gradient: Tensor, x: Tensor, *options: Any, indices: Any = None) -> Tensor:
    """Add the gradient of each maximum at its place in the volume."""
    return _at_maxima(gradient, x, options[-1] if indices is None else indices, 3)


def _at_maxima(gradient: Tensor, x: Tensor, indices: Tensor, dims: int) -> Tensor:
    flat = torch.zeros_like(x).flatten(-dims)
    summed = flat.scatter_add(-1, indices.flatten(-dims), gradient.flatten(-dims))
    return summed.view(x.shape)


# The n-th place that a mask chooses holds the n-th value.


def _order(mask: Tensor) -> Tensor:
    """Return for each place the number of chosen ones before it."""
    count = mask.flatten().to(torch.int64).cumsum(0) - 1
    return count.clamp(min=0).view(mask.shape)


@register_decomposition(aten.masked_scatter.default)
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Any:
    """Give the places that a mask chooses the values of ``source``, in order."""
    if source.numel() == 0:
        return NotImplemented
    x, mask = torch.broadcast_tensors(x, mask)  # type: ignore[no-untyped-call]
    return torch.where(mask, source.flatten()[_order(mask)], x)


@register_decomposition(aten.masked_scatter_backward.default)
def masked_scatter_backward(gradient: Tensor, mask: Tensor, sizes: Any) -> Any:
    """Give each value the gradient of its place."""
    values = gradient.new_zeros(sizes)
    if values.numel() == 0:
        return NotImplemented
    gradient, mask = torch.broadcast_tensors(gradient, mask)  # type: ignore[no-untyped-call]
    chosen = torch.where(mask, gradient, 0).flatten()
    return values.flatten().scatter_add(0, _order(mask).flatten(), chosen).view(sizes)


@register_decomposition(aten.scatter_reduce.two)
def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    """Return sums and means of floats; other reductions stay an operator."""
    if reduce not in ("sum", "mean") or not x.is_floating_point() or x.dim() == 0:
        return NotImplemented
    if include_self and reduce == "sum":
        return NotImplemented  # it has a loop of its own
    start = x if include_self else x.scatter(dim, index, 0)
    total = start.scatter_add(dim, index, src)
    if reduce == "sum":
        return total
    ones = torch.ones_like(x)
    known = ones if include_self else ones.scatter(dim, index, 0)
    count = known.scatter_add(dim, index, torch.ones_like(src))
    return total / count
