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

import functools
import math
from collections.abc import Callable, Sequence
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

_decomposes: Final = functools.partial(register_decomposition, table=RANDOM_DECOMPOSITIONS)

Draw = Callable[[Tensor, torch.dtype], Tensor]
"""Makes numbers of a dtype out of 64 random bits for each."""

_STEP: Final = 0x9E3779B97F4A7C15 - 2**64
_MIXERS: Final = ((30, 0xBF58476D1CE4E5B9 - 2**64), (27, 0x94D049BB133111EB - 2**64))
_DIGITS: Final = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}
"""The dtypes of random numbers, and how many bits of a number below 1 each holds exactly."""
_INTEGERS: Final = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_RANGES: Final = {dtype: (-(2**digits), 2**digits) for dtype, digits in _DIGITS.items()} | {
    dtype: (torch.iinfo(dtype).min, torch.iinfo(dtype).max) for dtype in _INTEGERS
}
"""The dtypes of random whole numbers, and the least and the greatest number of each."""


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


def _wide(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype to compute in: at least 32 bits."""
    return torch.promote_types(dtype, torch.float32)


def _uniform(bits: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the upper bits as a number from 0 up to, and without, 1."""
    digits = _DIGITS[dtype]
    return _shifted(bits, 64 - digits).to(_wide(dtype)).mul(2.0**-digits).to(dtype)


def _normal(bits: Tensor, dtype: torch.dtype) -> Tensor:
    """Turn two 32-bit numbers into one of the normal distribution (Box and Muller, 1958)."""
    radius = (_shifted(bits, 32).to(_wide(dtype)) + 0.5) * 2.0**-32
    angle = (bits & (2**32 - 1)).to(_wide(dtype)) * (2.0**-32 * 2.0 * math.pi)
    return (torch.sqrt(-2.0 * torch.log(radius)) * torch.cos(angle)).to(dtype)


def _applies(x: Tensor, generator: Any) -> bool:
    return generator is None and x.dtype in _DIGITS


@_decomposes(aten.bernoulli.p, random_operators.bernoulli)
def bernoulli_p(x: Tensor, p: float | Tensor = 0.5, *, generator: Any = None) -> Any:
    """1 with probability ``p``."""
    if not _applies(x, generator):
        return NotImplemented
    return (_uniform(_bits(x.shape, x.device)) < p).to(x.dtype)


@_decomposes(aten.bernoulli.default)
def bernoulli(p: Tensor, *, generator: Any = None) -> Any:
    """1 with a probability for each element."""
    return bernoulli_p(p, p, generator=generator)


@_decomposes(aten.native_dropout.default)
def native_dropout(x: Tensor, p: float, train: bool | None) -> Any:
    """Return the scaled rest of ``x``, and which elements are left."""
    if train is False or not _applies(x, None) or p >= 1:
        return NotImplemented
    mask = _uniform(_bits(x.shape, x.device)) >= p
    return x * mask * (1 / (1 - p)), mask


@_decomposes(aten.uniform.default)
def uniform(x: Tensor, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> Any:
    """Uniform numbers from ``low`` to ``high``."""
    if not _applies(x, generator):
        return NotImplemented
    return low + (high - low) * _uniform(_bits(x.shape, x.device), x.dtype)


@_decomposes(aten.normal_functional.default)
def normal(x: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Any:
    """Normal numbers of a mean and a standard deviation."""
    if not _applies(x, generator):
        return NotImplemented
    return (mean + std * _normal(_bits(x.shape, x.device), _wide(x.dtype))).to(x.dtype)


@_decomposes(aten.exponential.default)
def exponential(x: Tensor, lambd: float = 1.0, *, generator: Any = None) -> Any:
    """Negated logarithms of numbers above 0 and below 1, so that a program may divide by them."""
    if not _applies(x, generator) or lambd <= 0:
        return NotImplemented
    wide = _wide(x.dtype)
    digits = _DIGITS[wide] - 1
    bits = _shifted(_bits(x.shape, x.device), 64 - digits).to(wide)
    return (torch.log((bits + 0.5) * 2.0**-digits) / -lambd).to(x.dtype)


def _draw(
    draw: Draw, size: Sequence[Any], *, dtype: Any = None, device: Any = None, **_: Any
) -> Any:
    """Draw a new tensor: a decomposition of ``rand`` or ``randn``."""
    dtype = dtype or torch.get_default_dtype()
    if dtype not in _DIGITS:
        return NotImplemented
    return draw(_bits(size, torch.device(device or "cpu")), dtype)


def _draw_like(draw: Draw, x: Tensor, *, dtype: Any = None, device: Any = None, **_: Any) -> Any:
    """Draw a tensor of the size, and by default the dtype and device, of another."""
    return _draw(draw, x.shape, dtype=dtype or x.dtype, device=device or x.device)


_decomposes(aten.rand.default)(functools.partial(_draw, _uniform))
_decomposes(aten.randn.default)(functools.partial(_draw, _normal))
_decomposes(aten.rand_like.default)(functools.partial(_draw_like, _uniform))
_decomposes(aten.randn_like.default)(functools.partial(_draw_like, _normal))


@_decomposes(aten.randint.default, aten.randint.low)
def randint(*numbers: Any, dtype: Any = None, device: Any = None, **_: Any) -> Any:
    """Whole numbers: ``(low, high, size)`` or ``(high, size)``. The library draws a single one."""
    *lowest, high, size = numbers
    low = lowest[0] if lowest else 0
    least, most = _RANGES.get(dtype or torch.int64, (0, 0))
    if not (size and least <= low < high <= most + 1 and high - low < 2**63):
        return NotImplemented
    bits = _bits(size, torch.device(device or "cpu"))
    return (_shifted(bits, 1) % (high - low) + low).to(dtype or torch.int64)


@_decomposes(aten.randint_like.default, aten.randint_like.low_dtype)
@_decomposes(aten.random.to, getattr(aten.random, "from"))
def randint_like(
    x: Tensor, *limits: Any, dtype: Any = None, device: Any = None, **options: Any
) -> Any:
    """Whole numbers, from 0 or ``low`` up to, and without, ``high``, in the size of ``x``."""
    if options.get("generator") is not None or None in limits:
        return NotImplemented
    return randint(*limits, x.shape, dtype=dtype or x.dtype, device=device or x.device)
