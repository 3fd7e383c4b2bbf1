"""Means, deviations and norms, by sums and variances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from minitorch2.autograd.decompositions.precision import widen
from minitorch2.autograd.decompositions.registry import register_decomposition

aten = torch.ops.aten
Dims = Sequence[int] | None


def _dims(x: Tensor, dim: Dims) -> list[int]:
    """Return the reduced dimensions as a list; none given means all."""
    return [d % max(x.dim(), 1) for d in dim] if dim else list(range(x.dim()))


def _count(x: Tensor, dims: Sequence[int]) -> int:
    return math.prod(x.shape[d] for d in dims) if x.dim() else 1


@register_decomposition(aten.mean.default)
def mean(x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    """Sum divided by the number of elements."""
    return mean_dim(x, None, dtype=dtype)


@register_decomposition(aten.mean.dim)
def mean_dim(
    x: Tensor, dim: Dims, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    """Sum over ``dim`` divided by the number of elements."""
    dims = _dims(x, dim)
    x = x if dtype is None else x.to(dtype)
    total = widen(x).sum(dims, keepdim=keepdim)
    return (total / _count(x, dims)).to(x.dtype)


@register_decomposition(aten.std_mean.correction)
def std_mean(
    x: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False
) -> Any:
    """Standard deviation and mean."""
    if x.is_complex():
        return NotImplemented
    variance, average = torch.var_mean(x, _dims(x, dim), correction=correction, keepdim=keepdim)
    return torch.sqrt(variance), average
