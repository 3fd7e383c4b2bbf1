"""Activation functions and their derivatives, as pointwise operators."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor

from minitorch2.autograd.decompositions.precision import in_float32
from minitorch2.autograd.decompositions.registry import register_decomposition

aten = torch.ops.aten

_TANH_SCALE: Final = math.sqrt(2.0 / math.pi)
_TANH_CUBIC: Final = 0.044715


@register_decomposition(aten.gelu.default)
@in_float32
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """``x * Phi(x)``, Phi the normal distribution, or its tanh approximation.

    ``(1 + tanh(u)) / 2`` is ``sigmoid(2 u)``, which does not cancel.
    """
    if approximate == "tanh":
        return x * torch.sigmoid((x + x * x * x * _TANH_CUBIC) * (2.0 * _TANH_SCALE))
    return x * 0.5 * (torch.erf(x * math.sqrt(0.5)) + 1.0)


@register_decomposition(aten.gelu_backward.default)
@in_float32
def gelu_backward(grad: Tensor, x: Tensor, *, approximate: str = "none") -> Tensor:
    """``grad * (Phi(x) + x * phi(x))``."""
    if approximate == "tanh":
        square = x * x
        gate = torch.sigmoid((x + x * square * _TANH_CUBIC) * (2.0 * _TANH_SCALE))
        slope = (square * (3.0 * _TANH_CUBIC) + 1.0) * (2.0 * _TANH_SCALE)
        return grad * (gate + x * gate * (1.0 - gate) * slope)
    distribution = 0.5 * (torch.erf(x * math.sqrt(0.5)) + 1.0)
    density = torch.exp(x * x * -0.5) * (1.0 / math.sqrt(2.0 * math.pi))
    return grad * (distribution + x * density)


@register_decomposition(aten.silu.default)
@in_float32
def silu(x: Tensor) -> Tensor:
    """``x * sigmoid(x)``."""
    return x * torch.sigmoid(x)


@register_decomposition(aten.silu_backward.default)
@in_float32
def silu_backward(grad: Tensor, x: Tensor) -> Tensor:
    """``grad * s * (1 + x * (1 - s))`` with ``s = sigmoid(x)``."""
    s = torch.sigmoid(x)
    return grad * s * (1.0 + x * (1.0 - s))


@register_decomposition(aten.sigmoid_backward.default)
@in_float32
def sigmoid_backward(grad: Tensor, y: Tensor) -> Any:
    """``grad * y * (1 - y)``; of complex numbers, it stays an operator."""
    if y.is_complex():
        return NotImplemented
    return grad * (y * (1.0 - y))


@register_decomposition(aten.tanh_backward.default)
@in_float32
def tanh_backward(grad: Tensor, y: Tensor) -> Any:
    """``grad * (1 - y^2)``, without cancellation; of complex numbers, it stays an operator."""
    if y.is_complex():
        return NotImplemented
    return grad * ((1.0 - y) * (1.0 + y))


@register_decomposition(aten.threshold.default)
def threshold(x: Tensor, limit: float, value: float) -> Tensor:
    """``x`` where it exceeds the limit, else ``value``."""
    return torch.where(x <= limit, value, x)


@register_decomposition(aten.threshold_backward.default)
def threshold_backward(grad: Tensor, x: Tensor, limit: float) -> Tensor:
    """Return the gradient where ``x`` exceeds the limit."""
    return torch.where(x <= limit, 0.0, grad)


@register_decomposition(aten.hardtanh.default)
def hardtanh(x: Tensor, low: float = -1.0, high: float = 1.0) -> Tensor:
    """``x`` clamped to [low, high]; of integers, by the integer parts of the limits."""
    if not x.dtype.is_floating_point:
        low, high = int(low), int(high)
    return torch.clamp(x, low, high)


@register_decomposition(aten.hardtanh_backward.default)
def hardtanh_backward(grad: Tensor, x: Tensor, low: float, high: float) -> Tensor:
    """Return the gradient strictly inside (low, high)."""
    return torch.where((x <= low) | (x >= high), 0.0, grad)


@register_decomposition(aten.hardsigmoid.default)
@in_float32
def hardsigmoid(x: Tensor) -> Tensor:
    """``clamp(x + 3, 0, 6) / 6``."""
    return torch.clamp(x + 3.0, 0.0, 6.0) / 6.0


@register_decomposition(aten.hardsigmoid_backward.default)
@in_float32
def hardsigmoid_backward(grad: Tensor, x: Tensor) -> Tensor:
    """``grad / 6`` inside (-3, 3)."""
    return torch.where((x > -3.0) & (x < 3.0), grad * (1.0 / 6.0), 0.0)


@register_decomposition(aten.hardswish.default)
@in_float32
def hardswish(x: Tensor) -> Tensor:
    """``x * clamp(x + 3, 0, 6) / 6``."""
    return x * torch.clamp(x + 3.0, 0.0, 6.0) / 6.0


@register_decomposition(aten.hardswish_backward.default)
@in_float32
def hardswish_backward(grad: Tensor, x: Tensor) -> Tensor:
    """0 up to -3, ``grad * (x / 3 + 0.5)`` below 3, ``grad`` from there."""
    inside = torch.where(x < 3.0, grad * (x / 3.0 + 0.5), grad)
    return torch.where(x <= -3.0, 0.0, inside)


@register_decomposition(aten.leaky_relu.default)
def leaky_relu(x: Tensor, slope: float = 0.01) -> Tensor:
    """``x`` above 0, ``slope * x`` below."""
    return torch.where(x > 0, x, x * slope)


@register_decomposition(aten.leaky_relu_backward.default)
def leaky_relu_backward(grad: Tensor, x: Tensor, slope: float, from_result: bool) -> Tensor:
    """Select by the sign of ``x``, which may be the input or the result: both have one sign."""
    return torch.where(x > 0, grad, grad * slope)


@register_decomposition(aten.elu.default)
@in_float32
def elu(x: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    """``scale * x`` above 0, ``scale * alpha * (exp(input_scale * x) - 1)`` below."""
    return torch.where(x > 0, x * scale, torch.expm1(x * input_scale) * (alpha * scale))


@register_decomposition(aten.elu_backward.default)
@in_float32
def elu_backward(
    grad: Tensor, alpha: float, scale: float, input_scale: float, is_result: bool, x: Tensor
) -> Tensor:
    """Derivative of :func:`elu` from its input, or from its result."""
    slope = input_scale * (x + alpha * scale) if is_result else (
        torch.exp(x * input_scale) * (input_scale * alpha * scale)
    )  # fmt: skip
    return torch.where(x <= 0, grad * slope, grad * scale)


@register_decomposition(aten.softplus.default)
@in_float32
def softplus(x: Tensor, beta: float = 1.0, limit: float = 20.0) -> Tensor:
    """``log(1 + exp(beta * x)) / beta``, linear above the limit."""
    scaled = x * beta
    return torch.where(scaled > limit, x, torch.log1p(torch.exp(scaled)) / beta)


@register_decomposition(aten.softplus_backward.default)
@in_float32
def softplus_backward(grad: Tensor, x: Tensor, beta: float, limit: float) -> Tensor:
    """``grad * sigmoid(beta * x)``, ``grad`` above the limit."""
    scaled = x * beta
    return torch.where(scaled > limit, grad, grad * torch.sigmoid(scaled))


@register_decomposition(aten.mish.default)
@in_float32
def mish(x: Tensor) -> Tensor:
    """``x * tanh(softplus(x))``."""
    return x * torch.tanh(torch.nn.functional.softplus(x))


@register_decomposition(aten.mish_backward.default)
@in_float32
def mish_backward(grad: Tensor, x: Tensor) -> Tensor:
    """Derivative of :func:`mish`."""
    t = torch.tanh(torch.nn.functional.softplus(x))
    return grad * (t + x * torch.sigmoid(x) * (1.0 - t * t))


@register_decomposition(aten.log_sigmoid_forward.default)
@in_float32
def log_sigmoid_forward(x: Tensor) -> tuple[Tensor, Tensor]:
    """``log(sigmoid(x))`` and ``exp(-|x|)``, which the derivative reads."""
    buffer = torch.exp(-torch.abs(x))
    return torch.clamp(x, max=0.0) - torch.log1p(buffer), buffer


@register_decomposition(aten.log_sigmoid_backward.default)
@in_float32
def log_sigmoid_backward(grad: Tensor, x: Tensor, buffer: Tensor) -> Tensor:
    """``grad * sigmoid(-x)``."""
    return grad * torch.sigmoid(-x)


@register_decomposition(aten.glu.default)
def glu(x: Tensor, dim: int = -1) -> Tensor:
    """Return one half of ``x`` times the sigmoid of the other."""
    half = x.shape[dim] // 2
    return x.narrow(dim, 0, half) * torch.sigmoid(x.narrow(dim, half, half))


@register_decomposition(aten.glu_backward.default)
def glu_backward(grad: Tensor, x: Tensor, dim: int) -> Tensor:
    """Derivative of :func:`glu`."""
    half = x.shape[dim] // 2
    a, s = x.narrow(dim, 0, half), torch.sigmoid(x.narrow(dim, half, half))
    return torch.cat([grad * s, grad * a * s * (1.0 - s)], dim)


@register_decomposition(aten._prelu_kernel.default)
def prelu(x: Tensor, weight: Tensor) -> Tensor:
    """``x`` above 0, ``weight * x`` below."""
    return torch.where(x > 0, x, weight * x)


@register_decomposition(aten._prelu_kernel_backward.default)
def prelu_backward(grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return gradients of ``x`` and of the (expanded) weight."""
    return torch.where(x > 0, grad, weight * grad), torch.where(x > 0, 0.0, x * grad)


@register_decomposition(aten.native_dropout_backward.default)
def native_dropout_backward(grad: Tensor, mask: Tensor, scale: float) -> Any:
    """Drop the same elements as forward, and scale the others alike."""
    return grad * (mask.to(grad.dtype) * scale)
