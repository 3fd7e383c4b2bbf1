"""Metadata of pointwise operators without their meta kernels.

PyTorch's meta kernels of pointwise operators are Python (50-100 us each, and the first one imports
seconds' worth of modules). All that they find out is: the shape by broadcasting, the strides by the
elementwise rule, and the dtype by type promotion. The dtype is asked of the real operator on
tensors of one element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch._prims_common import compute_elementwise_output_strides

Operator = torch._ops.OpOverload


@cache
def is_plain_pointwise(func: Operator) -> bool:
    """Whether a result is one new tensor whose elements depend on those at the same place only."""
    schema = func._schema
    return (
        torch.Tag.pointwise in func.tags
        and torch.Tag.nondeterministic_seeded not in func.tags
        and len(schema.returns) == 1
        and not schema.is_mutable
        and all(argument.name not in ("memory_format", "device") for argument in schema.arguments)
    )


def pointwise_result(
    func: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> torch.Tensor | None:
    """The meta tensor that ``func`` gives for meta tensors; None where only its kernel can say.

    Raises RuntimeError, as the operator does, for shapes that do not broadcast.
    """
    tensors = [value for value in args if isinstance(value, torch.Tensor)]
    if not tensors or any(isinstance(value, (list, tuple)) for value in args):
        return None
    if any(isinstance(value, torch.Tensor) for value in kwargs.values()):
        return None
    probes = [_probe(v.dtype, v.dim()) if isinstance(v, torch.Tensor) else v for v in args]
    result = func(*probes, **kwargs)
    if not isinstance(result, torch.Tensor):
        return None
    shape = torch.broadcast_shapes(*[t.shape for t in tensors])  # type: ignore[no-untyped-call]
    strides = _strides(tensors, shape)
    return torch.empty_strided(shape, strides, dtype=result.dtype, device="meta")


@cache
def _probe(dtype: torch.dtype, rank: int) -> torch.Tensor:
    """One element, equal to 1: a legal divisor, exponent and logarithm. Never written to."""
    return torch.ones([1] * rank, dtype=dtype)


def _strides(tensors: Sequence[torch.Tensor], shape: torch.Size) -> Sequence[int]:
    if all(tensor.shape == shape for tensor in tensors):
        first = tensors[0]
        if first.is_contiguous() and all(t.is_contiguous() for t in tensors):
            return first.stride()
    return compute_elementwise_output_strides(*[tensor.expand(shape) for tensor in tensors])
