"""Pointwise operators in terms of more basic ones."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor

from minitorch2 import config
from minitorch2.autograd.decompositions.precision import as_float, in_float32, widen
from minitorch2.autograd.decompositions.registry import register_decomposition

aten = torch.ops.aten


@register_decomposition(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    """``value`` where the mask is set; the result has the dtype of ``x``."""
    if isinstance(value, Tensor):
        return torch.where(mask, value.to(x.dtype), x)
    return torch.where(mask, torch.full((), value, dtype=x.dtype, device=x.device), x)


@register_decomposition(aten.addcmul.default)
@in_float32
def addcmul(x: Tensor, a: Tensor, b: Tensor, *, value: float = 1) -> Tensor:
    """``x + value * a * b``."""
    return x + (a * b if value == 1 else a * value * b)


@register_decomposition(aten.addcdiv.default)
@in_float32
def addcdiv(x: Tensor, a: Tensor, b: Tensor, *, value: float = 1) -> Tensor:
    """``x + value * a / b``."""
    return x + (a / b if value == 1 else a * value / b)


@register_decomposition(aten.lerp.Scalar, aten.lerp.Tensor)
@in_float32
def lerp(start: Tensor, end: Tensor, weight: Any) -> Tensor:
    """``start + weight * (end - start)``, from the nearer end, so that weight 1 gives ``end``
    exactly.
    """
    distance = end - start
    if isinstance(weight, Tensor):
        near, far = start + weight * distance, end - distance * (1 - weight)
        return torch.where(torch.abs(weight) < 0.5, near, far)
    is_near = -0.5 < weight < 0.5  # a weight that varies stays a symbol on its side
    result: Tensor = start + distance * weight if is_near else end - distance * (1 - weight)
    return result


@register_decomposition(aten.rsub.Tensor)
def rsub_tensor(x: Tensor, other: Tensor, *, alpha: float = 1) -> Tensor:
    """``other - alpha * x``."""
    return torch.sub(other, x, alpha=alpha)


@register_decomposition(aten.rsub.Scalar)
def rsub_scalar(x: Tensor, other: float, alpha: float = 1) -> Tensor:
    """``other - alpha * x``; no operator takes the number first, so add it to the negative
    (exact).
    """
    return (-x if alpha == 1 else x * -alpha) + other


@register_decomposition(aten.square.default)
def square(x: Tensor) -> Tensor:
    """``x * x``."""
    return x * x


@register_decomposition(aten.fill.Scalar, aten.fill.Tensor)
def fill(x: Tensor, value: Any) -> Tensor:
    """Return a tensor of the layout of ``x`` that holds one value."""
    if isinstance(value, Tensor):
        return value.to(x.dtype).expand(x.shape).clone(memory_format=torch.contiguous_format)
    return torch.full_like(x, value)


@register_decomposition(aten.zero.default)
def zero(x: Tensor) -> Tensor:
    """Return zeros of the layout of ``x``."""
    return torch.full_like(x, 0)


@register_decomposition(aten.logit.default)
def logit(x: Tensor, eps: float | None = None) -> Tensor:
    """``log(x / (1 - x))``; eager's on the CPU rounds each step of 16-bit floats."""
    is_rounded_often = config.current().emulate_eager and x.device.type == "cpu"
    return _logit(x, eps) if is_rounded_often else in_float32(_logit)(x, eps)


def _logit(x: Tensor, eps: float | None) -> Tensor:
    x = as_float(x)
    x = x if eps is None else torch.clamp(x, eps, 1.0 - eps)
    return torch.log(x / (1.0 - x))


@register_decomposition(aten.nan_to_num.default)
def nan_to_num(
    x: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Finite numbers for NaN and the infinities."""
    if not x.is_floating_point():
        return x.clone()
    limits = torch.finfo(x.dtype)
    x = torch.where(torch.isnan(x), _rounded(0.0 if nan is None else nan, x.dtype), x)
    greatest = limits.max if posinf is None else _rounded(posinf, x.dtype)
    least = limits.min if neginf is None else _rounded(neginf, x.dtype)
    x = torch.where(x == float("inf"), greatest, x)
    return torch.where(x == float("-inf"), least, x)


def _rounded(number: float, dtype: torch.dtype) -> float:
    """Round a number to a dtype: this operator, unlike `where`, takes numbers beyond its range."""
    limits = torch.finfo(dtype)
    return number if limits.min <= number <= limits.max else math.copysign(math.inf, number)


@register_decomposition(aten.polygamma.default)
def polygamma(order: int, x: Tensor) -> Any:
    """digamma and its derivative; higher ones stay an operator."""
    if order > 1 or not x.is_floating_point():
        return NotImplemented
    return torch.digamma(x) if order == 0 else _trigamma(widen(x)).to(x.dtype)


def _trigamma(x: Tensor) -> Tensor:
    """Reflected to where x >= 1/2, moved up by six, then the asymptotic series.

    Abramowitz and Stegun: Handbook of Mathematical Functions, 6.4.6, 6.4.7 and 6.4.12.
    """
    is_reflected = x < 0.5
    sine = torch.sin(math.pi * x)
    reflection = -(math.pi**2) / (sine * sine)
    x = torch.where(is_reflected, 1 - x, x)
    result = torch.where(is_reflected, reflection, 0)
    for _ in range(6):
        result = result + 1 / (x * x)
        x = x + 1
    inverse = 1 / (x * x)
    series = 1 + 1 / (2 * x) + inverse * (1 / 6 - inverse * (1 / 30 - inverse / 42))
    return (result + series / x) * torch.where(is_reflected, -1.0, 1.0)


_BITS: Final = {
    torch.float64: torch.int64, torch.float32: torch.int32,
    torch.float16: torch.int16, torch.bfloat16: torch.int16,
}  # fmt: skip
"""The dtypes of floats, and of integers as wide."""


@register_decomposition(aten.nextafter.default)
def nextafter(x: Tensor, y: Tensor) -> Any:
    """Return the float next to ``x`` on the way to ``y``: its bits count away from zero."""
    if x.dtype != y.dtype or x.dtype not in _BITS:
        return NotImplemented
    bits = x.view(_BITS[x.dtype])
    step = torch.where((x < y) == (x > 0), 1, -1).to(bits.dtype)
    moved = (bits + step).view(x.dtype)
    least = torch.copysign(torch.ones_like(bits).view(x.dtype), y)
    moved = torch.where(x == 0, least, moved)
    return torch.where(x == y, y, torch.where(x.isnan() | y.isnan(), x + y, moved))


@register_decomposition(aten.frexp.Tensor)
def frexp(x: Tensor) -> Any:
    """Return mantissas from 0.5 up to, and without, 1, and exponents of 2, in int32."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    digits, bias = (52, 1022) if wide.dtype is torch.float64 else (23, 126)
    subnormal = wide.abs() < torch.finfo(wide.dtype).tiny
    bits = torch.where(subnormal, wide * 2.0**digits, wide).view(_BITS[wide.dtype])
    field = (2 * bias + 3) << digits
    exponent = ((bits & field) >> digits) - bias - torch.where(subnormal, digits, 0)
    mantissa = ((bits & ~field) | (bias << digits)).view(wide.dtype).to(x.dtype)
    itself = (x == 0) | ~x.isfinite()
    return torch.where(itself, x, mantissa), torch.where(itself, 0, exponent).to(torch.int32)
