"""Losses and their derivatives."""

from __future__ import annotations

import torch
from torch import Tensor

from minitorch2.autograd.decompositions.registry import register_decomposition

aten = torch.ops.aten

_NONE, _MEAN, _SUM = 0, 1, 2  # the values of at::Reduction


def _reduce(loss: Tensor, reduction: int) -> Tensor:
    if reduction == _MEAN:
        return loss.mean()
    return loss.sum() if reduction == _SUM else loss


def _scaled(grad: Tensor, x: Tensor, reduction: int) -> Tensor:
    """Return the gradient that each element gets from the reduced loss."""
    return grad / x.numel() if reduction == _MEAN else grad


@register_decomposition(aten.mse_loss.default)
def mse_loss(x: Tensor, target: Tensor, reduction: int = _MEAN) -> Tensor:
    """``(x - target)^2``."""
    distance = x - target
    return _reduce(distance * distance, reduction)


@register_decomposition(aten.mse_loss_backward.default)
def mse_loss_backward(grad: Tensor, x: Tensor, target: Tensor, reduction: int) -> Tensor:
    """``2 * (x - target) * grad``."""
    return (x - target) * (_scaled(grad, x, reduction) * 2.0)


@register_decomposition(aten.smooth_l1_loss.default)
def smooth_l1_loss(x: Tensor, target: Tensor, reduction: int = _MEAN, beta: float = 1.0) -> Tensor:
    """Quadratic below ``beta``, linear above."""
    distance = torch.abs(x - target)
    if beta == 0:
        return _reduce(distance, reduction)
    loss = torch.where(distance < beta, distance * distance * (0.5 / beta), distance - 0.5 * beta)
    return _reduce(loss, reduction)


@register_decomposition(aten.smooth_l1_loss_backward.default)
def smooth_l1_loss_backward(
    grad: Tensor, x: Tensor, target: Tensor, reduction: int, beta: float
) -> Tensor:
    """Derivative of :func:`smooth_l1_loss`."""
    distance = x - target
    slope = torch.sign(distance)
    if beta > 0:
        slope = torch.where(torch.abs(distance) >= beta, slope, distance / beta)
    return slope * _scaled(grad, x, reduction)


@register_decomposition(aten.huber_loss.default)
def huber_loss(x: Tensor, target: Tensor, reduction: int = _MEAN, delta: float = 1.0) -> Tensor:
    """Quadratic up to ``delta``, linear above."""
    distance = torch.abs(x - target)
    loss = torch.where(
        distance <= delta, distance * distance * 0.5, (distance - 0.5 * delta) * delta
    )
    return _reduce(loss, reduction)


@register_decomposition(aten.huber_loss_backward.default)
def huber_loss_backward(
    grad: Tensor, x: Tensor, target: Tensor, reduction: int, delta: float
) -> Tensor:
    """Derivative of :func:`huber_loss`."""
    return torch.clamp(x - target, -delta, delta) * _scaled(grad, x, reduction)


@register_decomposition(aten.binary_cross_entropy.default)
def binary_cross_entropy(
    x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = _MEAN
) -> Tensor:
    """``-(t log x + (1 - t) log(1 - x))``, logarithms bounded by -100."""
    loss = (target - 1.0) * torch.clamp(torch.log1p(-x), min=-100.0)
    loss = loss - target * torch.clamp(torch.log(x), min=-100.0)
    return _reduce(loss if weight is None else loss * weight, reduction)


@register_decomposition(aten.binary_cross_entropy_backward.default)
def binary_cross_entropy_backward(
    grad: Tensor, x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = _MEAN
) -> Tensor:
    """Derivative of :func:`binary_cross_entropy`."""
    result = grad * (x - target) / torch.clamp((1.0 - x) * x, min=1e-12)
    return _scaled(result if weight is None else result * weight, x, reduction)


@register_decomposition(aten.binary_cross_entropy_with_logits.default)
def binary_cross_entropy_with_logits(
    x: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None,
    reduction: int = _MEAN,
) -> Tensor:  # fmt: skip
    """``(1 - t) x - log(sigmoid(x))``, the second term weighted for positives."""
    log_sigmoid = torch.clamp(x, max=0.0) - torch.log1p(torch.exp(-torch.abs(x)))
    factor = 1.0 if pos_weight is None else (pos_weight - 1.0) * target + 1.0
    loss = (1.0 - target) * x - log_sigmoid * factor
    return _reduce(loss if weight is None else loss * weight, reduction)


@register_decomposition(aten.nll_loss_forward.default, aten.nll_loss2d_forward.default)
def nll_loss_forward(
    x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """Return minus the log-probability of the target class (dimension 1, or 0), and the weight."""
    dim = min(1, x.dim() - 1)
    counted = target != ignore_index
    safe = torch.where(counted, target, 0)
    picked = -torch.gather(x, dim, safe.unsqueeze(dim)).squeeze(dim)
    share = None if weight is None else torch.where(counted, weight[safe], 0.0)
    loss = torch.where(counted, picked, 0.0) if share is None else picked * share
    total = counted.to(x.dtype).sum() if share is None else share.sum()
    if reduction == _NONE:
        return loss, torch.full((), 0.0, dtype=x.dtype, device=x.device)
    summed = loss.sum() if loss.dim() else loss
    return (summed / total if reduction == _MEAN else summed), total


@register_decomposition(aten.nll_loss_backward.default, aten.nll_loss2d_backward.default)
def nll_loss_backward(
    grad: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, reduction: int,
    ignore_index: int, total: Tensor,
) -> Tensor:  # fmt: skip
    """``-grad * weight`` at the target class, 0 elsewhere: a comparison, not a scatter, so it
    fuses.
    """
    dim = min(1, x.dim() - 1)
    target = target.unsqueeze(dim)
    grad = grad / total if reduction == _MEAN else grad
    grad = grad.unsqueeze(dim) if reduction == _NONE and grad.dim() else grad
    classes = torch.arange(x.shape[dim], device=x.device)
    shape = [x.shape[dim] if d == dim else 1 for d in range(x.dim())]
    classes = classes.reshape(shape)
    slope = -grad if weight is None else -grad * weight.reshape(shape)
    return torch.where((classes == target) & (target != ignore_index), slope, 0.0).to(x.dtype)
