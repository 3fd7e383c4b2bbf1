"""The common parts of all bodies: dtypes, arguments that NumPy takes in many forms, refusals."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch

DTYPES: Final = {
    np.dtype(name): getattr(torch, name)
    for name in (
        *("bool", "uint8", "int8", "int16", "int32", "int64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
}
"""Dtypes that mean the same in both libraries."""


NUMPY_DTYPES: Final = {dtype: array_dtype for array_dtype, dtype in DTYPES.items()}


def refuse(cause: str) -> None:
    """Leave the call to NumPy: the graph breaks here."""
    raise NotImplementedError(cause)


def torch_dtype(dtype: Any) -> torch.dtype:
    """Return PyTorch's dtype for an object that NumPy takes for a dtype."""
    wanted = np.dtype(dtype)
    if wanted not in DTYPES:
        refuse("an array of this dtype")
    found: torch.dtype = DTYPES[wanted]
    return found


def numpy_type(value: Any) -> Any:
    """Return the operand of `numpy.result_type`: an array's dtype, or a (weakly typed) number."""
    return NUMPY_DTYPES[value.dtype] if isinstance(value, torch.Tensor) else value


def tensor_of(value: Any, dtype: Any = None) -> Any:
    """``numpy.asarray(value, dtype)``"""
    if isinstance(value, torch.Tensor):
        return value if dtype is None else value.to(torch_dtype(dtype))
    if isinstance(value, list | tuple):
        parts = [tensor_of(part) for part in value]
        if parts:
            return torch.stack(promoted(parts, dtype))
        return torch.zeros(0, dtype=torch_dtype(dtype or float))
    return torch.full((), value, dtype=torch_dtype(dtype or type(value)))


def promoted(tensors: Any, dtype: Any = None) -> list[Any]:
    """Return the tensors in their common dtype."""
    if dtype is None:
        dtype = np.result_type(*[numpy_type(tensor) for tensor in tensors])
    return [tensor_of(tensor, dtype) for tensor in tensors]


def plain_order(order: Any = "K", like: Any = None) -> None:
    """Refuse an order other than C's, and ``like=``."""
    if like is not None or order not in ("C", "K", "A"):
        refuse("an array in another order than C's")


def has_axis(tensor: Any, axis: Any) -> None:
    """Refuse an axis of a tensor without dimensions, which PyTorch would accept."""
    if axis is not None and tensor.ndim == 0:
        refuse("an axis of something without dimensions")


def size_of(shape: Any) -> Any:
    """Return a shape, or axes, of which one may be given as a number."""
    return tuple(shape) if isinstance(shape, list | tuple) else (shape,)


def axes_given(axes: Any) -> Any:
    """Return axes that are given as arguments or as one tuple."""
    return axes[0] if len(axes) == 1 and isinstance(axes[0], list | tuple) else axes


def stored(value: Any, out: Any) -> Any:
    """Return the result, in ``out=`` if that is given."""
    if out is None:
        return value
    if out.shape != value.shape or out.dtype != value.dtype:
        refuse("a result of another form than its out=")
    return out.copy_(value)
