"""Compute in float32 where half precision would lose too many digits, as eager kernels do."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from minitorch2.native.torch_internals.pytree import tree_map_only

_HALF = (torch.float16, torch.bfloat16)
Function = TypeVar("Function", bound=Callable[..., Any])


def widen(tensor: torch.Tensor) -> torch.Tensor:
    """Convert float16 and bfloat16 to float32; leave other tensors unchanged."""
    return tensor.to(torch.float32) if tensor.dtype in _HALF else tensor


def as_float(tensor: torch.Tensor) -> torch.Tensor:
    """Convert integers and bools to the default dtype; leave other tensors unchanged."""
    exact = tensor.dtype.is_floating_point or tensor.is_complex()
    return tensor if exact else tensor.to(torch.get_default_dtype())


def in_float32(function: Function) -> Function:
    """Widen half-precision arguments of a decomposition and round its results to the first
    argument's dtype.
    """

    @functools.wraps(function)
    def widened(*args: Any, **kwargs: Any) -> Any:
        dtype = next(value.dtype for value in args if isinstance(value, torch.Tensor))
        if dtype not in _HALF:
            return function(*args, **kwargs)
        wide_args, wide_kwargs = tree_map_only(torch.Tensor, widen, (args, kwargs))
        result = function(*wide_args, **wide_kwargs)
        return tree_map_only(torch.Tensor, lambda t: t.to(dtype), result)

    return widened  # type: ignore[return-value]
