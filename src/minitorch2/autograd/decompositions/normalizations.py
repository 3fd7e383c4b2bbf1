"""Normalizations and softmax, as reductions and pointwise operators.

Each keeps its statistics as results of the operator, so that the derivative reads a few numbers a
row instead of recomputing a reduction. They are computed in float32 for half-precision inputs, and
have eager's dtype as results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from minitorch2.autograd.decompositions.precision import as_float, widen
from minitorch2.autograd.decompositions.registry import register_decomposition
from minitorch2.graph.symbols import expr_of

aten = torch.ops.aten


def _moments(x: Tensor, dims: Sequence[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, biased variance and 1/sqrt(variance + eps), reduced dimensions kept as 1."""
    variance, mean = torch.var_mean(x, dim=list(dims), correction=0, keepdim=True)
    return mean, variance, torch.rsqrt(variance + eps)


def _mean_gradient(grad: Tensor, x_hat: Tensor, rstd: Tensor, dims: Sequence[int]) -> Tensor:
    """Gradient of ``x_hat = (x - mean) * rstd``: ``rstd * (g - mean(g) - x_hat * mean(g *
    x_hat))``.
    """
    count = math.prod(x_hat.shape[d] for d in dims)
    total = grad.sum(list(dims), keepdim=True)
    projection = (grad * x_hat).sum(list(dims), keepdim=True)
    return rstd * (grad - (total + x_hat * projection) / count)


def _as_statistics(
    x: Tensor, parameter: Tensor | None, mean: Tensor, rstd: Tensor
) -> tuple[Tensor, Tensor]:
    """Return statistics of ``x`` in the dtype that eager's operators give them.

    On a CPU that is the dtype of the parameters, or of ``x`` where there are none.
    """
    if x.device.type != "cpu":
        return mean, rstd
    dtype = x.dtype if parameter is None else parameter.dtype
    return mean.to(dtype), rstd.to(dtype)


@register_decomposition(aten.native_layer_norm.default)
def native_layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """``(x - mean) * rstd * weight + bias`` over the last ``len(shape)`` dimensions; mean; rstd."""
    wide = widen(x)
    dims = range(x.dim() - len(shape), x.dim())
    mean, _, rstd = _moments(wide, dims, eps)
    out = (wide - mean) * rstd
    out = out if weight is None else out * weight
    out = out if bias is None else out + bias
    return out.to(x.dtype), *_as_statistics(x, weight, mean, rstd)


@register_decomposition(aten.native_layer_norm_backward.default)
def native_layer_norm_backward(
    grad: Tensor, x: Tensor, shape: Sequence[int], mean: Tensor, rstd: Tensor,
    weight: Tensor | None, bias: Tensor | None, mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:  # fmt: skip
    """Return gradients of x, weight and bias."""
    grad_wide, wide = widen(grad), widen(x)
    outer = list(range(x.dim() - len(shape)))
    inner = list(range(len(outer), x.dim()))
    x_hat = (wide - widen(mean)) * widen(rstd)
    scaled = grad_wide if weight is None else grad_wide * weight
    grad_x = _mean_gradient(scaled, x_hat, rstd, inner).to(x.dtype) if mask[0] else None
    grad_weight = grad_bias = None
    if mask[1] and weight is not None:
        grad_weight = _sum(grad_wide * x_hat, outer).to(weight.dtype)
    if mask[2] and bias is not None:
        grad_bias = _sum(grad_wide, outer).to(bias.dtype)
    return grad_x, grad_weight, grad_bias


def _sum(x: Tensor, dims: list[int]) -> Tensor:
    return x.sum(dims) if dims else x  # an empty list of dimensions would mean all of them


@register_decomposition(aten.native_group_norm.default)
def native_group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, n: int, c: int, hw: int, groups: int,
    eps: float
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Normalize each group of channels; mean and rstd have the shape [n, groups]."""
    grouped: Tensor = torch.unflatten(widen(x), 1, (groups, c // groups))
    mean, _, rstd = _moments(grouped, range(2, grouped.dim()), eps)
    out = ((grouped - mean) * rstd).flatten(1, 2)
    per_channel = [1, c] + [1] * (x.dim() - 2)
    out = out if weight is None else out * weight.reshape(per_channel)
    out = out if bias is None else out + bias.reshape(per_channel)
    statistics = _as_statistics(x, weight, mean.reshape(n, groups), rstd.reshape(n, groups))
    return out.to(x.dtype), *statistics


@register_decomposition(aten.native_group_norm_backward.default)
def native_group_norm_backward(
    grad: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None,
    n: int, c: int, hw: int, groups: int, mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:  # fmt: skip
    """Return gradients of x, weight and bias, all from two sums over each channel's elements."""
    shape = n, groups, c // groups, hw
    g, wide = widen(grad).reshape(shape), widen(x).reshape(shape)
    mean, rstd = (widen(each).reshape(n, groups, 1, 1) for each in (mean, rstd))
    x_hat = (wide - mean) * rstd
    scale = 1.0 if weight is None else weight.reshape(1, groups, c // groups, 1)
    sums, dots = g.sum(3, keepdim=True), (g * x_hat).sum(3, keepdim=True)
    total, projection = ((each * scale).sum(2, keepdim=True) for each in (sums, dots))
    grad_x = rstd * (g * scale - (total + x_hat * projection) / (c // groups * hw))
    dtype = x.dtype if weight is None else weight.dtype
    grad_weight, grad_bias = (each.sum(0).reshape(c).to(dtype) for each in (dots, sums))
    return (
        grad_x.reshape(x.shape).to(x.dtype) if mask[0] else None,
        grad_weight if mask[1] else None,
        grad_bias if mask[2] else None,
    )


def _batch_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, rstd: Tensor
) -> Tensor:
    """``mean`` and ``rstd`` have one element a channel (dimension 1)."""
    shape = [1, x.shape[1]] + [1] * (x.dim() - 2)
    out = (widen(x) - mean.reshape(shape)) * rstd.reshape(shape)
    out = out if weight is None else out * weight.reshape(shape)
    out = out if bias is None else out + bias.reshape(shape)
    return out.to(x.dtype)


@register_decomposition(aten.native_batch_norm.default, aten._native_batch_norm_legit.default)
def native_batch_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Batch normalization; in training the running statistics are written in place."""
    if not training:
        assert running_mean is not None and running_var is not None
        rstd = torch.rsqrt(widen(running_var) + eps)
        out, empty = _batch_norm(x, weight, bias, running_mean, rstd), running_mean.new_empty(0)
        on_cpu = x.device.type == "cpu"  # a GPU's kernel returns the statistics that it used
        return (out, empty, empty.clone()) if on_cpu else (out, widen(running_mean).clone(), rstd)
    dims = [d for d in range(x.dim()) if d != 1]
    mean, variance, rstd = (t.reshape(-1) for t in _moments(widen(x), dims, eps))
    count = math.prod(x.shape[d] for d in dims)
    if running_mean is not None:
        running_mean.copy_(running_mean * (1.0 - momentum) + mean * momentum)
    if running_var is not None:
        unbiased = variance * (count / (count - 1)) if count != 1 else variance * math.nan
        running_var.copy_(running_var * (1.0 - momentum) + unbiased * momentum)
    out = _batch_norm(x, weight, bias, mean, rstd)
    return out, *_as_statistics(x, running_mean if weight is None else weight, mean, rstd)


@register_decomposition(aten._native_batch_norm_legit_no_training.default)
def native_batch_norm_no_training(x: Tensor, *args: Any) -> tuple[Tensor, ...]:
    """Batch normalization by the running statistics: all arguments but `training`."""
    weight, bias, mean, variance, *rest = args
    return native_batch_norm(x, weight, bias, mean, variance, False, *rest)


@register_decomposition(aten.cudnn_batch_norm.default)
def cudnn_batch_norm(x: Tensor, *args: Any) -> tuple[Tensor, ...]:
    """Batch normalization with cuDNN's fourth result, which ours does not need."""
    return (*native_batch_norm(x, *args), x.new_empty(0, dtype=torch.uint8))


@register_decomposition(aten._batch_norm_with_update.default)
def batch_norm_with_update(x: Tensor, *args: Any) -> tuple[Tensor, ...]:
    """Batch normalization in training. PyTorch's meta kernel mistakes 16-bit statistics' dtype."""
    return cudnn_batch_norm(x, *args[:4], True, *args[4:])


@register_decomposition(aten._native_batch_norm_legit.no_stats)
def native_batch_norm_no_stats(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, training: bool, *rest: float
) -> tuple[Tensor, ...]:
    """Batch normalization without running statistics."""
    return native_batch_norm(x, weight, bias, None, None, True, *rest)


@register_decomposition(aten.native_batch_norm_backward.default)
def native_batch_norm_backward(
    grad: Tensor, x: Tensor, weight: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, save_mean: Tensor | None, save_rstd: Tensor | None,
    training: bool, eps: float, mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:  # fmt: skip
    """Return gradients of x, weight and bias."""
    mean = save_mean if training else running_mean
    rstd = save_rstd if training else torch.rsqrt(widen(_given(running_var)) + eps)
    shape = [1, x.shape[1]] + [1] * (x.dim() - 2)
    dims = [d for d in range(x.dim()) if d != 1]
    wide, scale = widen(grad), widen(_given(rstd)).reshape(shape)
    x_hat = (widen(x) - widen(_given(mean)).reshape(shape)) * scale
    # A channel has one weight, so these two sums serve all three gradients.
    total, projection = wide.sum(dims), (wide * x_hat).sum(dims)
    factor = scale if weight is None else scale * weight.reshape(shape)
    grad_x = factor * wide
    if training:
        count = math.prod(x.shape[d] for d in dims)
        change = total.reshape(shape) + x_hat * projection.reshape(shape)
        grad_x = factor * (wide - change / count)
    dtype = x.dtype if weight is None else weight.dtype
    grad_weight = projection.to(dtype) if mask[1] else None
    grad_bias = total.to(dtype) if mask[2] else None
    return (grad_x.to(x.dtype) if mask[0] else None), grad_weight, grad_bias


@register_decomposition(aten.cudnn_batch_norm_backward.default)
def cudnn_batch_norm_backward(
    x: Tensor, grad: Tensor, weight: Tensor, running_mean: Tensor | None, running_var: Tensor |
    None,
    save_mean: Tensor | None, save_rstd: Tensor | None, eps: float, reserve: Tensor,
) -> Any:  # fmt: skip
    """Return gradients of x, weight and bias."""
    return native_batch_norm_backward(
        grad, x, weight, running_mean, running_var, save_mean, save_rstd, True, eps, [True] * 3
    )


def _given(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return tensor


@register_decomposition(aten._softmax.default)
def softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """``exp(x - max) / sum(exp(x - max))``."""
    wide = widen(x)
    exponentials = torch.exp(wide - _maximum(wide, dim))
    total = exponentials.sum([dim], keepdim=True)
    if half_to_float or wide is x:
        return exponentials / total
    # A quotient takes ten times as long as a product, and halves show no difference.
    return (exponentials * torch.reciprocal(total)).to(x.dtype)


@register_decomposition(aten._safe_softmax.default)
def safe_softmax(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """Softmax whose rows of minus infinity only are 0 instead of NaN."""
    x = x if dtype is None else x.to(dtype)
    masked = (x == -math.inf).all(dim, keepdim=True)
    return torch.where(masked, 0.0, torch.softmax(x, dim))


@register_decomposition(aten._log_softmax.default)
def log_softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """``x - max - log(sum(exp(x - max)))``."""
    wide = widen(x)
    shifted = wide - _maximum(wide, dim)
    result = shifted - torch.log(torch.exp(shifted).sum([dim], keepdim=True))
    return result if half_to_float else result.to(x.dtype)


def _is_empty(sizes: Sequence[int]) -> bool:
    """Return whether a size is certainly 0; one that only data tell is taken for more."""
    return any(expr_of(size) == 0 for size in sizes)


def _maximum(x: Tensor, dim: int) -> Tensor:
    if x.dim() and _is_empty([x.shape[dim]]):  # nothing to subtract it from
        return x.sum([dim], keepdim=True)
    return torch.amax(x, [dim], keepdim=True)


@register_decomposition(aten._softmax_backward_data.default)
def softmax_backward(grad: Tensor, y: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
    """``y * (grad - sum(grad * y))``."""
    product = widen(grad) * widen(y)
    return (product - widen(y) * product.sum([dim], keepdim=True)).to(input_dtype)


@register_decomposition(aten._log_softmax_backward_data.default)
def log_softmax_backward(grad: Tensor, y: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
    """``grad - exp(y) * sum(grad)``."""
    wide = widen(grad)
    return (wide - torch.exp(widen(y)) * wide.sum([dim], keepdim=True)).to(input_dtype)


@register_decomposition(aten.logsumexp.default)
def logsumexp(x: Tensor, dim: Sequence[int], keepdim: bool = False) -> Any:
    """``log(sum(exp(x)))`` without overflow."""
    if x.is_complex():
        return NotImplemented
    x = as_float(x)
    wide = widen(x)
    if _is_empty(x.shape):  # nothing is largest
        result = torch.log(torch.exp(wide).sum(list(dim), keepdim=True))
    else:
        largest = torch.amax(wide, list(dim), keepdim=True)
        largest = torch.where(torch.abs(largest) == math.inf, 0.0, largest)
        result = torch.log(torch.exp(wide - largest).sum(list(dim), keepdim=True)) + largest
    return (result if keepdim else result.squeeze(list(dim))).to(x.dtype)
