"""Operators that PyTorch's database lacks, with samples in its form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

REINTERPRETED = (
    torch.bool, torch.uint8, torch.int8, torch.uint16, torch.int16, torch.uint32, torch.int32,
    torch.uint64, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.complex32, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu,
)  # fmt: skip
"""The dtypes of memory that may be viewed as each other."""


def every_pattern(dtype: torch.dtype) -> torch.Tensor:
    """A matrix of elements of a dtype with all patterns of 8 bits, NaN among them."""
    if dtype == torch.bool:
        return torch.arange(256).reshape(4, 64) % 3 == 0
    order = torch.arange(256, dtype=torch.int64) * 37 % 256
    return order.to(torch.uint8).reshape(4, 64).view(dtype)


def reinterpret(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """An input's bits, those of a computed tensor, and a kernel that reads both."""
    moved = x.flip(0)
    return x.view(dtype), moved.view(dtype), torch.stack([x.view(dtype), moved.view(dtype)])


def _samples(
    op: OpInfo, device: str, dtype: torch.dtype, requires_grad: bool, **options: Any
) -> Iterator[SampleInput]:
    source = every_pattern(dtype).requires_grad_(requires_grad and dtype.is_floating_point)
    # A bool that is neither 0 nor 1 has no meaning. Other widths come last: they are no kernels.
    targets = [target for target in REINTERPRETED if target != torch.bool]
    for target in sorted(targets, key=lambda target: target.itemsize != dtype.itemsize):
        yield SampleInput(source, args=(target,))


ADDED = [
    OpInfo(
        "view_dtype",
        op=reinterpret,
        dtypes=frozenset(REINTERPRETED),
        sample_inputs_func=_samples,
        supports_out=False,
        supports_autograd=False,
    )
]
"""`Tensor.view(dtype)` for all pairs of dtypes."""
