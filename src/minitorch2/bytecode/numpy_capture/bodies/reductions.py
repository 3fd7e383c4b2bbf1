"""Functions along an axis: sums, extremes, orders. ``numpy.ufunc.reduce`` is here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch

from minitorch2.bytecode.numpy_capture.bodies.dtypes import (
    NUMPY_DTYPES,
    has_axis,
    promoted,
    refuse,
    size_of,
    stored,
    tensor_of,
    torch_dtype,
)
from minitorch2.native.numpy_internals import NO_VALUE


def _chosen(self: Any, axis: Any, out: Any, keepdims: Any, choose: Callable[..., Any]) -> Any:
    has_axis(self, axis)
    values = self.to(torch.uint8) if self.dtype is torch.bool else self
    if self.is_complex():
        refuse("the order of complex numbers")
    if axis is None:
        return choose(values.reshape(-1), 0)
    return stored(choose(values, axis, keepdim=bool(keepdims)), out)


def argmax(self: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    """``ndarray.argmax``"""
    return _chosen(self, axis, out, keepdims is True, torch.argmax)


def argmin(self: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    """``ndarray.argmin``"""
    return _chosen(self, axis, out, keepdims is True, torch.argmin)


def _running(
    self: Any, axis: Any, dtype: Any, out: Any, run: Callable[..., Any], ufunc: Any
) -> Any:
    has_axis(self, axis)
    values = self.reshape(-1) if axis is None else self
    wanted = torch_dtype(reduction_dtype(ufunc, NUMPY_DTYPES[self.dtype], dtype))
    if wanted is torch.float16:
        refuse("a sum in half precision")
    return stored(run(values.to(wanted), 0 if axis is None else axis, dtype=wanted), out)


def cumsum(self: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """``ndarray.cumsum``"""
    return _running(self, axis, dtype, out, torch.cumsum, np.add)


def cumprod(self: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """``ndarray.cumprod``"""
    return _running(self, axis, dtype, out, torch.cumprod, np.multiply)


def _sorted(self: Any, axis: Any, kind: Any, order: Any) -> Any:
    has_axis(self, axis)
    if order is not None or self.is_complex():
        refuse("an order of fields or of complex numbers")
    if axis is None:
        return torch.sort(self.reshape(-1), stable=True)
    return torch.sort(self, dim=axis, stable=True)


def sort(
    self: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> None:
    """``ndarray.sort``"""
    self.copy_(_sorted(self, axis, kind, order)[0])


def argsort(
    self: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Any:
    """``ndarray.argsort``"""
    if kind not in ("stable", "mergesort") and not stable:
        refuse("an order in which equal elements may be anywhere")
    return _sorted(self, axis, kind, order)[1]


def searchsorted(self: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """``ndarray.searchsorted``"""
    edges, values = promoted([self, tensor_of(v)])
    if sorter is not None or edges.is_floating_point() or edges.is_complex():
        refuse("a search among numbers that may be NaN")
    return torch.searchsorted(edges, values, right=side == "right")


def trace(
    self: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Any:
    """``ndarray.trace``"""
    return reduce(np.add, self.diagonal(offset, axis1, axis2), -1, dtype, out)


def reduction_dtype(ufunc: Any, dtype: Any, wanted: Any = None) -> Any:
    """Return the dtype in which ``ufunc.reduce`` of an array computes."""
    return np.dtype(wanted or ufunc.reduce(np.ones(1, dtype)).dtype)


def _summed(values: Any, axes: Any, keepdims: bool) -> Any:
    if values.dtype is torch.bool:
        return values.any(axes, keepdims)
    return values.sum(axes, keepdims, dtype=values.dtype)


def _multiplied(values: Any, axes: Any, keepdims: bool) -> Any:
    for axis in sorted([axis % values.ndim for axis in axes], reverse=True):
        values = values.prod(axis, keepdims, dtype=values.dtype)
    return values


REDUCTIONS: Final[dict[Any, Callable[..., Any]]] = {
    np.add: _summed,
    np.multiply: _multiplied,
    np.maximum: torch.amax,
    np.minimum: torch.amin,
    np.logical_and: torch.all,
    np.logical_or: torch.any,
}


def reduce(
    ufunc: Any, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None,
    keepdims: Any = False, initial: Any = NO_VALUE, where: Any = True,
) -> Any:  # fmt: skip
    """``numpy.ufunc.reduce``"""
    values = tensor_of(array)
    if initial is not NO_VALUE or ufunc not in REDUCTIONS:
        refuse("this reduction")
    has_axis(values, axis)
    if values.is_complex() and ufunc in (np.maximum, np.minimum):
        refuse("the order of complex numbers")
    axes = tuple(range(values.ndim)) if axis is None else size_of(axis)
    wanted = torch_dtype(reduction_dtype(ufunc, NUMPY_DTYPES[values.dtype], dtype))
    if (values.ndim and not axes) or (wanted is torch.float16 and ufunc in (np.add, np.multiply)):
        refuse("a sum in half precision, or of nothing")
    logical = ufunc in (np.logical_and, np.logical_or)
    values = values.to(torch.bool if logical else wanted)
    if where is not True:
        if ufunc.identity is None:
            refuse("a reduction of a part that may be empty")
        values = torch.where(tensor_of(where), values, ufunc.identity)
    return stored(REDUCTIONS[ufunc](values, axes, bool(keepdims)), out)


def accumulate(ufunc: Any, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
    """``numpy.ufunc.accumulate``"""
    if ufunc not in (np.add, np.multiply) or array.ndim == 0:
        refuse("this running reduction")
    return (cumsum if ufunc is np.add else cumprod)(array, axis, dtype, out)
