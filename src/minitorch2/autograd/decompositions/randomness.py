"""Random numbers that kernels draw by themselves (``options={"fallback_random": False}``).

An operator draws one number, its seed, from PyTorch's generator; element ``i`` of its result is a
hash of seed and ``i``::

    bernoulli(x, p)    -->    uniform(seed, arange(x.numel())) < p    with seed = randint(2**63)

All but the seed is arithmetic on elements. So it is fused with what reads it, in any order, and
backward computes it again from the 8 bytes of the seed. The seed is as fresh, and as repeatable, as
the generator's numbers are; the numbers are others than eager's.

The hash is SplitMix64 (Steele, Lea and Flood: Fast splittable pseudorandom number generators,
OOPSLA 2014), which is an output function of a counter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor

from minitorch2.autograd.decompositions.registry import (
    Decomposition,
    Operator,
    register_decomposition,
)
from minitorch2.graph import random_operators

aten = torch.ops.aten

RANDOM_DECOMPOSITIONS: Final[dict[Operator, Decomposition]] = {}
"""Applied where eager's own numbers are not asked for."""

_STEP: Final = 0x9E3779B97F4A7C15 - 2**64
_MIXERS: Final = ((30, 0xBF58476D1CE4E5B9 - 2**64), (27, 0x94D049BB133111EB - 2**64))
_DIGITS: Final = {torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}
"""The dtypes of random numbers, and how many bits of a number below 1 each holds exactly."""


def _bits(size: Sequence[Any], device: torch.device) -> Tensor:
    """64 random bits for each element of a tensor of this size."""
    seed = torch.randint(2**63 - 1, (), device=device)
    count = math.prod(size)
    z = seed + torch.arange(count, device=device).reshape(list(size)) * _STEP
    for shift, factor in _MIXERS:
        z = (z ^ _shifted(z, shift)) * factor
    return z ^ _shifted(z, 31)


def _shifted(z: Tensor, count: int) -> Tensor:
    """Return the bits moved to the right; zeros come in from the left."""
    return z.bitwise_right_shift(count).bitwise_and(2 ** (64 - count) - 1)


def _uniform(bits: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the upper bits as a number from 0 up to, and without, 1."""
    digits = _DIGITS[dtype]
    return _shifted(bits, 64 - digits).to(torch.float32).mul(2.0**-digits).to(dtype)


def _normal(bits: Tensor) -> Tensor:
    """Turn two 32-bit numbers into one of the normal distribution (Box and Muller, 1958)."""
    radius = (_shifted(bits, 32).to(torch.float32) + 0.5) * 2.0**-32
    angle = (bits & (2**32 - 1)).to(torch.float32) * (2.0**-32 * 2.0 * math.pi)
    return torch.sqrt(-2.0 * torch.log(radius)) * torch.cos(angle)


def _applies(x: Tensor, generator: Any) -> bool:
    return generator is None and x.dtype in _DIGITS


@register_decomposition(aten.bernoulli.p, random_operators.bernoulli, table=RANDOM_DECOMPOSITIONS)
def bernoulli_p(x: Tensor, p: float = 0.5, *, generator: Any = None) -> Any:
    """1 with probability ``p``."""
    if not _applies(x, generator):
        return NotImplemented
    return (_uniform(_bits(x.shape, x.device)) < p).to(x.dtype)


@register_decomposition(aten.bernoulli.default, table=RANDOM_DECOMPOSITIONS)
def bernoulli(p: Tensor, *, generator: Any = None) -> Any:
    """1 with a probability for each element."""
    if not _applies(p, generator):
        return NotImplemented
    return (_uniform(_bits(p.shape, p.device)) < p).to(p.dtype)


@register_decomposition(aten.native_dropout.default, table=RANDOM_DECOMPOSITIONS)
def native_dropout(x: Tensor, p: float, train: bool | None) -> Any:
    """Return the scaled rest of ``x``, and which elements are left."""
    if train is False or not _applies(x, None) or p >= 1:
        return NotImplemented
    mask = _uniform(_bits(x.shape, x.device)) >= p
    return x * mask * (1 / (1 - p)), mask


@register_decomposition(aten.rand_like.default, table=RANDOM_DECOMPOSITIONS)
def rand_like(x: Tensor, *, dtype: torch.dtype | None = None, **options: Any) -> Any:
    """Uniform numbers."""
    if (dtype or x.dtype) not in _DIGITS or options.get("device", x.device) != x.device:
        return NotImplemented
    return _uniform(_bits(x.shape, x.device), dtype or x.dtype)


@register_decomposition(aten.randn_like.default, table=RANDOM_DECOMPOSITIONS)
def randn_like(x: Tensor, *, dtype: torch.dtype | None = None, **options: Any) -> Any:
    """Normal numbers."""
    if (dtype or x.dtype) not in _DIGITS or options.get("device", x.device) != x.device:
        return NotImplemented
    return _normal(_bits(x.shape, x.device)).to(dtype or x.dtype)


@register_decomposition(aten.uniform.default, table=RANDOM_DECOMPOSITIONS)
def uniform(x: Tensor, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> Any:
    """Uniform numbers from ``low`` to ``high``."""
    if not _applies(x, generator):
        return NotImplemented
    return low + (high - low) * _uniform(_bits(x.shape, x.device), x.dtype)


@register_decomposition(aten.normal_functional.default, table=RANDOM_DECOMPOSITIONS)
def normal(x: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Any:
    """Normal numbers of a mean and a standard deviation."""
    if not _applies(x, generator):
        return NotImplemented
    return (mean + std * _normal(_bits(x.shape, x.device))).to(x.dtype)


def _default_dtype(dtype: torch.dtype | None) -> torch.dtype:
    return dtype or torch.get_default_dtype()


@register_decomposition(aten.rand.default, table=RANDOM_DECOMPOSITIONS)
def rand(size: Sequence[Any], *, dtype: Any = None, device: Any = None, **options: Any) -> Any:
    """Uniform numbers in a new tensor."""
    if _default_dtype(dtype) not in _DIGITS:
        return NotImplemented
    return _uniform(_bits(size, torch.device(device or "cpu")), _default_dtype(dtype))


@register_decomposition(aten.randn.default, table=RANDOM_DECOMPOSITIONS)
def randn(size: Sequence[Any], *, dtype: Any = None, device: Any = None, **options: Any) -> Any:
    """Normal numbers in a new tensor."""
    if _default_dtype(dtype) not in _DIGITS:
        return NotImplemented
    return _normal(_bits(size, torch.device(device or "cpu"))).to(_default_dtype(dtype))
