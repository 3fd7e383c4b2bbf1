"""Activation functions and their backward formulas, elementwise.

The formulas are those of the PyTorch documentation; a backward takes the incoming gradient first.
"""

from __future__ import annotations

import math

import torch

from minitorch2.loopir.lowering.registry import number_value, pointwise
from minitorch2.loopir.ops import Value, ops

aten = torch.ops.aten


def _constant(dtype: torch.dtype, value: float) -> Value:
    return number_value(value, dtype)


@pointwise(aten.relu)
def relu(dtype: torch.dtype, x: Value) -> Value:
    """`max(x, 0)`; NaN stays."""
    return ops.maximum(x, number_value(0, dtype))


@pointwise(aten.hardtanh)
def hardtanh(dtype: torch.dtype, x: Value, low: Value, high: Value) -> Value:
    """`x` clamped to [low, high]."""
    return ops.minimum(ops.maximum(x, low), high)


@pointwise(aten.relu6)
def relu6(dtype: torch.dtype, x: Value) -> Value:
    """`x` clamped to [0, 6]."""
    return ops.minimum(ops.maximum(x, _constant(dtype, 0)), _constant(dtype, 6))


@pointwise(aten.leaky_relu)
def leaky_relu(dtype: torch.dtype, x: Value, slope: Value) -> Value:
    """`x` where positive, else `slope * x`."""
    return ops.where(ops.gt(x, _constant(dtype, 0)), x, ops.mul(x, slope))


@pointwise(aten._prelu_kernel)
def prelu(dtype: torch.dtype, x: Value, weight: Value) -> Value:
    """`x` where positive, else `weight * x`."""
    return ops.where(ops.gt(x, _constant(dtype, 0)), x, ops.mul(x, weight))


@pointwise(aten.elu)
def elu(
    dtype: torch.dtype,
    x: Value,
    alpha: Value,
    scale: Value,
    input_scale: Value,
) -> Value:
    """`scale * x` where positive, else `scale * alpha * (exp(input_scale * x) - 1)`."""
    negative = ops.mul(ops.mul(ops.expm1(ops.mul(x, input_scale)), alpha), scale)
    return ops.where(ops.le(x, _constant(dtype, 0)), negative, ops.mul(x, scale))


@pointwise(aten.celu)
def celu(dtype: torch.dtype, x: Value, alpha: Value) -> Value:
    """`x` where positive, else `alpha * (exp(x / alpha) - 1)`."""
    negative = ops.mul(ops.expm1(ops.truediv(x, alpha)), alpha)
    return ops.where(ops.le(x, _constant(dtype, 0)), negative, x)


@pointwise(aten.silu)
def silu(dtype: torch.dtype, x: Value) -> Value:
    """`x * sigmoid(x)`"""
    return ops.mul(x, ops.sigmoid(x))


@pointwise(aten.mish)
def mish(dtype: torch.dtype, x: Value) -> Value:
    """`x * tanh(softplus(x))`"""
    return ops.mul(x, ops.tanh(softplus(dtype, x, _constant(dtype, 1), _constant(dtype, 20))))


@pointwise(aten.softplus)
def softplus(dtype: torch.dtype, x: Value, beta: Value, limit: Value) -> Value:
    """`log(1 + exp(beta * x)) / beta`; `x` itself where `beta * x` exceeds the threshold."""
    scaled = ops.mul(x, beta)
    soft = ops.truediv(ops.log1p(ops.exp(scaled)), beta)
    return ops.where(ops.gt(scaled, limit), x, soft)


@pointwise(aten.gelu)
def gelu(dtype: torch.dtype, x: Value, *, approximate: str = "none") -> Value:
    """`x * Phi(x)`, Phi the normal distribution, exactly or by tanh."""
    if approximate == "tanh":  # (1 + tanh(u)) / 2 is sigmoid(2 u), which does not cancel
        inner = _gelu_tanh_argument(dtype, x)
        return ops.mul(x, ops.sigmoid(ops.add(inner, inner)))
    half_x, one = ops.mul(x, _constant(dtype, 0.5)), _constant(dtype, 1)
    return ops.mul(half_x, ops.add(one, _gelu_bump(dtype, x, approximate)))


def _gelu_bump(dtype: torch.dtype, x: Value, approximate: str) -> Value:
    """`2 Phi(x) - 1`"""
    if approximate == "none":
        return ops.erf(ops.mul(x, _constant(dtype, math.sqrt(0.5))))
    return ops.tanh(_gelu_tanh_argument(dtype, x))


def _gelu_tanh_argument(dtype: torch.dtype, x: Value) -> Value:
    cube = ops.mul(ops.mul(x, x), x)
    inner = ops.add(x, ops.mul(cube, _constant(dtype, 0.044715)))
    return ops.mul(inner, _constant(dtype, math.sqrt(2 / math.pi)))


@pointwise(aten.hardsigmoid)
def hardsigmoid(dtype: torch.dtype, x: Value) -> Value:
    """`clamp(x + 3, 0, 6) / 6`"""
    shifted = ops.add(x, _constant(dtype, 3))
    clamped = ops.minimum(ops.maximum(shifted, _constant(dtype, 0)), _constant(dtype, 6))
    return ops.truediv(clamped, _constant(dtype, 6))


@pointwise(aten.hardswish)
def hardswish(dtype: torch.dtype, x: Value) -> Value:
    """`x * hardsigmoid(x)`"""
    shifted = ops.add(x, _constant(dtype, 3))
    clamped = ops.minimum(ops.maximum(shifted, _constant(dtype, 0)), _constant(dtype, 6))
    return ops.truediv(ops.mul(x, clamped), _constant(dtype, 6))


@pointwise(aten.hardshrink)
def hardshrink(dtype: torch.dtype, x: Value, lambd: Value) -> Value:
    """0 where `|x| <= lambda`, else `x`."""
    inside = ops.logical_and(ops.ge(x, ops.neg(lambd)), ops.le(x, lambd))
    return ops.where(inside, _constant(dtype, 0), x)


@pointwise(aten.softshrink)
def softshrink(dtype: torch.dtype, x: Value, lambd: Value) -> Value:
    """`x` moved towards 0 by lambda, 0 inside; NaN stays."""
    zero = ops.mul(x, _constant(dtype, 0))
    low = ops.where(ops.lt(x, ops.neg(lambd)), ops.add(x, lambd), zero)
    return ops.where(ops.gt(x, lambd), ops.sub(x, lambd), low)


@pointwise(aten.threshold)
def threshold(dtype: torch.dtype, x: Value, limit: Value, value: Value) -> Value:
    """`value` where `x <= limit`, else `x`."""
    return ops.where(ops.le(x, limit), value, x)


# -- backward -----------------------------------------------------------------------------------


@pointwise(aten.sigmoid_backward)
def sigmoid_backward(dtype: torch.dtype, grad: Value, y: Value) -> Value:
    """`grad * y * (1 - y)`, of the result y."""
    return ops.mul(ops.mul(grad, ops.sub(_constant(dtype, 1), y)), y)


@pointwise(aten.tanh_backward)
def tanh_backward(dtype: torch.dtype, grad: Value, y: Value) -> Value:
    """`grad * (1 - y) * (1 + y)`, of the result y: `1 - y * y` would cancel."""
    one = _constant(dtype, 1)
    return ops.mul(grad, ops.mul(ops.sub(one, y), ops.add(one, y)))


@pointwise(aten.threshold_backward)
def threshold_backward(dtype: torch.dtype, grad: Value, x: Value, limit: Value) -> Value:
    """0 where `x <= limit`, else `grad`."""
    return ops.where(ops.le(x, limit), number_value(0, dtype), grad)


@pointwise(aten.hardtanh_backward)
def hardtanh_backward(dtype: torch.dtype, grad: Value, x: Value, low: Value, high: Value) -> Value:
    """`grad` strictly inside the bounds, else 0."""
    outside = ops.logical_or(ops.le(x, low), ops.ge(x, high))
    return ops.where(outside, _constant(dtype, 0), grad)


@pointwise(aten.leaky_relu_backward)
def leaky_relu_backward(
    dtype: torch.dtype, grad: Value, x: Value, slope: Value, self_is_result: Value
) -> Value:
    """`grad` where x is positive, else `slope * grad`."""
    return ops.where(ops.gt(x, _constant(dtype, 0)), grad, ops.mul(grad, slope))


@pointwise(aten.silu_backward)
def silu_backward(dtype: torch.dtype, grad: Value, x: Value) -> Value:
    """`grad * s * (1 + x * (1 - s))` with `s = sigmoid(x)`."""
    s, one = ops.sigmoid(x), _constant(dtype, 1)
    return ops.mul(ops.mul(grad, s), ops.add(one, ops.mul(x, ops.sub(one, s))))


@pointwise(aten.gelu_backward)
def gelu_backward(dtype: torch.dtype, grad: Value, x: Value, *, approximate: str = "none") -> Value:
    """`grad * (Phi(x) + x * Phi'(x))`"""
    half, one = _constant(dtype, 0.5), _constant(dtype, 1)
    bump = _gelu_bump(dtype, x, approximate)
    phi = ops.mul(half, ops.add(one, bump))
    if approximate == "none":
        square = ops.mul(ops.mul(x, x), _constant(dtype, -0.5))
        density = ops.mul(ops.exp(square), _constant(dtype, 1 / math.sqrt(2 * math.pi)))
        return ops.mul(grad, ops.add(phi, ops.mul(x, density)))
    slope = ops.sub(one, ops.mul(bump, bump))
    inner = ops.add(one, ops.mul(ops.mul(x, x), _constant(dtype, 3 * 0.044715)))
    density = ops.mul(ops.mul(slope, inner), _constant(dtype, math.sqrt(2 / math.pi) / 2))
    return ops.mul(grad, ops.add(phi, ops.mul(x, density)))


@pointwise(aten.hardswish_backward)
def hardswish_backward(dtype: torch.dtype, grad: Value, x: Value) -> Value:
    """0 below -3, `grad` above 3, `grad * (x / 3 + 1/2)` between."""
    middle = ops.add(ops.truediv(x, _constant(dtype, 3)), _constant(dtype, 0.5))
    inner = ops.where(ops.lt(x, _constant(dtype, 3)), ops.mul(grad, middle), grad)
    return ops.where(ops.le(x, _constant(dtype, -3)), _constant(dtype, 0), inner)


@pointwise(aten.hardsigmoid_backward)
def hardsigmoid_backward(dtype: torch.dtype, grad: Value, x: Value) -> Value:
    """`grad / 6` strictly between -3 and 3, else 0."""
    inside = ops.logical_and(ops.gt(x, _constant(dtype, -3)), ops.lt(x, _constant(dtype, 3)))
    return ops.where(inside, ops.truediv(grad, _constant(dtype, 6)), _constant(dtype, 0))


@pointwise(aten.softplus_backward)
def softplus_backward(
    dtype: torch.dtype, grad: Value, x: Value, beta: Value, limit: Value
) -> Value:
    """`grad * sigmoid(beta * x)`; `grad` itself above the threshold."""
    scaled = ops.mul(x, beta)
    return ops.where(ops.gt(scaled, limit), grad, ops.mul(grad, ops.sigmoid(scaled)))
