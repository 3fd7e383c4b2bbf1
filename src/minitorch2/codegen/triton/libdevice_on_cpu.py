"""CUDA's math library for Triton's interpreter: the same names, answered by eager PyTorch.

The interpreter runs kernels in Python on NumPy arrays and cannot call libdevice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton.language as tl

from minitorch2.native.triton_internals.compiler import TensorHandle

Block = Any  # tl.tensor, which has no types


def _block(data: np.ndarray[Any, Any], scalar: Any, is_block: bool) -> Block:
    block_type = tl.block_type(scalar, list(data.shape)) if is_block else scalar
    return tl.tensor(TensorHandle(data, scalar), block_type)


def _eager(function: Callable[..., torch.Tensor]) -> Callable[..., Block]:
    """Return a function of tensors as one of the interpreter's blocks."""

    def call(*blocks: Block) -> Block:
        arrays = np.broadcast_arrays(*(block.handle.data for block in blocks))
        result = function(*(torch.from_numpy(np.ascontiguousarray(a)) for a in arrays))
        is_block = any(block.type.is_block() for block in blocks)
        return _block(result.numpy().reshape(arrays[0].shape), blocks[0].dtype, is_block)

    return call


def check_index(index: Block, size: Block | int, mask: Block | bool) -> None:
    """Raise if an index that counts is not in `0 <= index < size`.

    Raises:
        IndexError: with the first such index.
    """
    data, limit, counts = np.broadcast_arrays(*map(_array, (index, size, mask)))
    wrong = data[counts.astype(bool) & ((data < 0) | (data >= limit))]
    if wrong.size:
        raise IndexError(f"index {wrong.flat[0]} is out of bounds for size {limit.flat[0]}")


def _array(block: Block | int) -> Any:
    value = getattr(block, "value", block)  # a number may come as tl.constexpr
    return value.handle.data if isinstance(value, tl.tensor) else np.asarray(value)


exp, exp2, expm1 = _eager(torch.exp), _eager(torch.exp2), _eager(torch.expm1)
fast_expf = exp
log, log2, log10 = _eager(torch.log), _eager(torch.log2), _eager(torch.log10)
log1p, pow = _eager(torch.log1p), _eager(torch.pow)
tan, asin, acos = _eager(torch.tan), _eager(torch.asin), _eager(torch.acos)
atan, atan2 = _eager(torch.atan), _eager(torch.atan2)
sinh, cosh, tanh = _eager(torch.sinh), _eager(torch.cosh), _eager(torch.tanh)
asinh, acosh, atanh = _eager(torch.asinh), _eager(torch.acosh), _eager(torch.atanh)
erf, erfc, lgamma = _eager(torch.erf), _eager(torch.erfc), _eager(torch.lgamma)
rsqrt, trunc, rint = _eager(torch.rsqrt), _eager(torch.trunc), _eager(torch.round)
copysign, fmod = _eager(torch.copysign), _eager(torch.fmod)
signbit = _eager(torch.signbit)
