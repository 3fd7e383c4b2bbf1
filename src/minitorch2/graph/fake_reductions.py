"""Our own metadata rules for norms, losses and reductions.

PyTorch's meta kernels of these are Python functions made of elementwise references. The first of
these references imports ``torch._dynamo``, which takes three quarters of a second and serves no
other purpose here. The rules hold for plain arguments: floats of one dtype, contiguous in memory,
with sizes that are numbers. Otherwise they return None, and PyTorch's kernel runs. It also runs for
arguments that do not fit together, so that it raises its error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, Final

import torch
from torch import Tensor

from minitorch2.native.torch_internals.operators import OpOverload

aten = torch.ops.aten
_FLOATS: Final = (torch.float32, torch.float64)
_NONE: Final = 0
"""The reduction of a loss that is not reduced."""


def _is_plain(*tensors: Tensor | None) -> bool:
    """Return whether the tensors are contiguous floats of one dtype and of known sizes."""
    present = [t for t in tensors if t is not None]
    return present[0].dtype in _FLOATS and all(
        t.dtype == present[0].dtype and all(type(n) is int for n in t.shape) and t.is_contiguous()
        for t in present
    )


def _have_shape(shape: Sequence[int], *tensors: Tensor | None) -> bool:
    return all(t is None or tuple(t.shape) == tuple(shape) for t in tensors)


def layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, ...] | None:
    """Return the result, the means and the inverse deviations."""
    rows = x.dim() - len(shape)
    fits = tuple(x.shape[rows:]) == tuple(shape) and _have_shape(shape, weight, bias)
    if not shape or not fits or not _is_plain(x, weight, bias):
        return None
    statistics = (*x.shape[:rows], *[1] * len(shape))
    return torch.empty_like(x), x.new_empty(statistics), x.new_empty(statistics)


def group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, n: int, c: int, inner: int, groups: int,
    eps: float,
) -> tuple[Tensor, ...] | None:  # fmt: skip
    """Return the result, the means and the inverse deviations."""
    fits = prod(x.shape) == n * c * inner and _have_shape((c,), weight, bias)
    if not _is_plain(x, weight, bias) or not fits or c % groups:
        return None
    return torch.empty_like(x), x.new_empty((n, groups)), x.new_empty((n, groups))


def plain_batch_norm(x: Tensor, *arguments: Any) -> tuple[Tensor, ...] | None:
    """Return the result and two statistics of each channel, as PyTorch's meta kernel does."""
    others = [a for a in arguments if isinstance(a, Tensor)]
    if x.dim() < 2 or not _is_plain(x, *others) or not _have_shape(x.shape[1:2], *others):
        return None
    return torch.empty_like(x), x.new_empty(x.shape[1:2]), x.new_empty(x.shape[1:2])


def log_softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor | None:
    """Return the metadata of the result, as for softmax."""
    if not -x.dim() <= dim < max(x.dim(), 1):
        return None
    result: Tensor = aten._softmax.default(x, dim, half_to_float)
    return result


def safe_softmax(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor | None:
    """Return the metadata of the result, as for softmax."""
    if not _is_plain(x) or dtype not in (None, x.dtype) or not -x.dim() <= dim < x.dim():
        return None
    return torch.empty_like(x)


def reduced(
    x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor | None:
    """Return the metadata of a reduction, as for a sum."""
    if x.dtype not in _FLOATS or dtype not in (None, *_FLOATS):
        return None
    result: Tensor = aten.sum.dim_IntList(x, dim, keepdim, dtype=dtype)
    return result


def deviation(x: Tensor, *arguments: Any, **options: Any) -> Tensor:
    """Return the metadata of the standard deviation, as for the variance."""
    result: Tensor = aten.var.correction(x, *arguments, **options)
    return result


def moments(x: Tensor, *arguments: Any, **options: Any) -> tuple[Tensor, Tensor]:
    """Return the variance, and a mean of the same shape."""
    variance = deviation(x, *arguments, **options)
    return variance, torch.empty_like(variance, dtype=x.dtype)


def log_sum_exp(x: Tensor, dim: Any, keepdim: bool = False) -> Tensor | None:
    """Return the metadata of the result, as for a sum."""
    return reduced(x, dim, keepdim) if _is_plain(x) and x.numel() else None


def vector_norm(
    x: Tensor, order: float = 2, dim: Any = None, keepdim: bool = False, **options: Any
) -> Tensor | None:
    """Return the metadata of the norm, as for a sum."""
    return reduced(x, dim, keepdim, **options) if _is_plain(x) and x.numel() else None


def quantified(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor | None:
    """Return the metadata of ``any`` or ``all``, as for a sum, but of dtype bool."""
    if x.dtype == torch.uint8:
        return None
    dims = [dim] if isinstance(dim, int) else dim
    result: Tensor = aten.sum.dim_IntList(x, dims, keepdim, dtype=torch.bool)
    return result


def elementwise_loss(func: OpOverload, x: Tensor, target: Tensor, *arguments: Any) -> Tensor | None:
    """Return a number, or one for each element."""
    others = [a for a in arguments if isinstance(a, Tensor)]
    if not _is_plain(x, target, *others) or not _have_shape(x.shape, target, *others):
        return None
    names = [argument.name for argument in func._schema.arguments]
    place = names.index("reduction") - 2
    reduction = arguments[place] if place < len(arguments) else 1
    return torch.empty_like(x) if reduction == _NONE else x.new_empty(())


def nll_loss(
    x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignored: int
) -> tuple[Tensor, Tensor] | None:
    """Return the metadata of the loss and of the total weight of the targets in it."""
    fits = x.dim() == 2 and tuple(target.shape) == tuple(x.shape[:1])
    if not fits or not _is_plain(x, weight) or not _have_shape(x.shape[1:], weight):
        return None
    return x.new_empty(x.shape[:1] if reduction == _NONE else ()), x.new_empty(())


def gated(x: Tensor, dim: int = -1) -> Tensor | None:
    """Return the metadata of ``glu``, which halves a dimension."""
    if not _is_plain(x) or not -x.dim() <= dim < x.dim() or x.shape[dim] % 2:
        return None
    shape = list(x.shape)
    shape[dim] //= 2
    return x.new_empty(shape)


def upsampled(x: Tensor, size: Sequence[int], *arguments: Any) -> Tensor | None:
    """Return the metadata of as many images and channels, each of another size."""
    if x.dim() != 2 + len(size) or not _is_plain(x) or not all((*x.shape[1:], *size)):
        return None
    return x.new_empty((*x.shape[:2], *size))


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor | None:
    """Return the metadata of stacked tensors, which have one more dimension."""
    first = tensors[0]
    if not _is_plain(*tensors) or not _have_shape(first.shape, *tensors):
        return None
    if not -first.dim() - 1 <= dim <= first.dim():
        return None
    place = dim % (first.dim() + 1)
    return first.new_empty((*first.shape[:place], len(tensors), *first.shape[place:]))


_LOSSES: Final = (
    aten.mse_loss.default, aten.smooth_l1_loss.default, aten.huber_loss.default,
    aten.binary_cross_entropy.default, aten.binary_cross_entropy_with_logits.default,
)  # fmt: skip

FAKE_REDUCTIONS: Final[dict[OpOverload, Callable[..., Any]]] = {
    aten.native_layer_norm.default: layer_norm,
    aten.native_group_norm.default: group_norm,
    aten._log_softmax.default: log_softmax,
    aten._safe_softmax.default: safe_softmax,
    aten.mean.default: reduced,
    aten.mean.dim: reduced,
    aten.std.correction: deviation,
    aten.var_mean.correction: moments,
    aten.logsumexp.default: log_sum_exp,
    aten.linalg_vector_norm.default: vector_norm,
    aten.nll_loss_forward.default: nll_loss,
    aten.glu.default: gated,
    aten.upsample_bilinear2d.default: upsampled,
    aten.stack.default: stack,
    **{
        func: quantified
        for name in (aten.any, aten.all)
        for func in (name.default, name.dim, name.dims)
    },
    **{func: partial(elementwise_loss, func) for func in _LOSSES},
}
