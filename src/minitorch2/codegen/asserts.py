"""Checks of a running wrapper, if options ask for them: layouts, and results that are NaN."""

from __future__ import annotations

import torch

from minitorch2.errors import CheckError


def assert_layout(
    name: str, tensor: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...]
) -> None:
    """Check, with option `assert_layouts`, that an input has the planned size and strides.

    Raises:
        CheckError: it has not. Strides of dimensions of one element do not count.
    """
    found = tuple(s for s, n in zip(tensor.stride(), size, strict=False) if n > 1)
    planned = tuple(s for s, n in zip(stride, size, strict=True) if n > 1)
    if tuple(tensor.shape) != size or (found != planned and tensor.numel() > 0):
        raise CheckError(
            f"{name} has size {tuple(tensor.shape)} and stride {tensor.stride()}; "
            f"the graph was compiled for {size} and {stride}"
        )


def assert_no_nan(name: str, tensor: torch.Tensor, kernel: str) -> None:
    """Check, with option `assert_no_nan`, that a kernel has stored no NaN.

    Raises:
        CheckError: it is not; the message names the kernel, whose text names the user's lines.
    """
    if tensor.is_floating_point() and bool(tensor.isnan().any()):
        raise CheckError(f"{kernel} has stored NaN in {name}, of size {tuple(tensor.shape)}")
