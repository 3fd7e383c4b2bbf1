"""Making and filling arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from minitorch2.bytecode.numpy_capture.bodies.dtypes import (
    NUMPY_DTYPES,
    numpy_type,
    plain_order,
    refuse,
    size_of,
    tensor_of,
    torch_dtype,
)


def array(
    object: Any,
    dtype: Any = None,
    *,
    copy: Any = True,
    order: Any = "K",
    subok: bool = False,
    ndmin: int = 0,
    like: Any = None,
) -> Any:
    """``numpy.array``"""
    plain_order(order, like)
    made = tensor_of(object, dtype)
    if made.ndim < ndmin:
        refuse("numpy.array with ndmin")
    if copy is False and made is not object:
        refuse("an array that must not be copied")
    return made.clone() if copy and made is object else made


def asarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None,
    like: Any = None,
) -> Any:  # fmt: skip
    """``numpy.asarray``"""
    plain_order(order or "K", like)
    return array(a, dtype, copy=copy)


def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """``numpy.ascontiguousarray``"""
    made = tensor_of(a, dtype).contiguous()
    return made if made.ndim else made.view(1)


def zeros(
    shape: Any, dtype: Any = float, order: Any = "C", *, device: Any = None, like: Any = None
) -> Any:
    """``numpy.zeros``"""
    plain_order(order, like)
    return torch.zeros(size_of(shape), dtype=torch_dtype(dtype or float))


def ones(
    shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, like: Any = None
) -> Any:
    """``numpy.ones``"""
    plain_order(order, like)
    return torch.ones(size_of(shape), dtype=torch_dtype(dtype or float))


def full(
    shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", *, device: Any = None,
    like: Any = None,
) -> Any:  # fmt: skip
    """``numpy.full``"""
    plain_order(order, like)
    value = tensor_of(fill_value, dtype)
    return value.expand(size_of(shape)).contiguous().clone()


def _like(make: Callable[..., Any]) -> Callable[..., Any]:
    def made_like(
        a: Any, dtype: Any = None, order: Any = "K", subok: Any = True, shape: Any = None, *,
        device: Any = None,
    ) -> Any:  # fmt: skip
        plain_order(order)
        model = tensor_of(a)
        if shape is not None:
            model = model.reshape(-1)[:1].expand(size_of(shape)).contiguous()
        return make(model, dtype=model.dtype if dtype is None else torch_dtype(dtype))

    return made_like


zeros_like = _like(torch.zeros_like)


ones_like = _like(torch.ones_like)


def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: Any = "K", subok: Any = True,
    shape: Any = None, *, device: Any = None,
) -> Any:  # fmt: skip
    """``numpy.full_like``"""
    made = zeros_like(a, dtype, order, subok, shape)
    return made.copy_(tensor_of(fill_value).expand(made.shape))


def arange(*args: Any, dtype: Any = None, device: Any = None, like: Any = None) -> Any:
    """Make whole numbers one by one; others as NumPy makes them of the first two."""
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    if dtype is None:
        dtype = np.result_type(*[type(value) for value in (start, stop, step)])
    if np.dtype(dtype).kind == "i":
        return torch.arange(start, stop, step, dtype=torch_dtype(dtype))
    count = max(math.ceil((stop - start) / step), 0)
    if np.dtype(dtype) != np.dtype(float):
        refuse("a range of these numbers")
    return torch.arange(count, dtype=torch.float64) * ((start + step) - start) + start


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: Any = None, axis: int = 0, *, device: Any = None,
) -> Any:  # fmt: skip
    """``numpy.linspace``"""
    numbers = isinstance(start, int | float) and isinstance(stop, int | float)
    if not numbers or retstep or dtype not in (None, float, np.float32, np.float64):
        refuse("numpy.linspace between arrays")
    steps = num - 1 if endpoint else num
    made = torch.arange(num, dtype=torch.float64)
    distance = stop * 1.0 - start * 1.0
    step = distance / steps if steps > 0 else 1.0
    made = made / steps * distance if step == 0 else made * step
    made = made + start
    if endpoint and num > 1:
        made[-1] = stop
    return made.to(torch_dtype(dtype or float))


def eye(
    N: int, M: Any = None, k: int = 0, dtype: Any = float, order: Any = "C", *,
    device: Any = None, like: Any = None,
) -> Any:  # fmt: skip
    """``numpy.eye``"""
    plain_order(order, like)
    made = torch.zeros((N, N if M is None else M), dtype=torch_dtype(dtype or float))
    if -made.shape[0] < k < made.shape[1]:
        made.diagonal(k).fill_(1)
    return made


def diag(v: Any, k: int = 0) -> Any:
    """``numpy.diag``"""
    return torch.diag(v, k) if v.ndim == 1 else v.diagonal(k)


def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """``numpy.fill_diagonal``"""
    if a.ndim != 2 or (a.shape[0] < a.shape[1] and wrap) or isinstance(val, list | tuple):
        refuse("another diagonal than a matrix's")
    if isinstance(val, torch.Tensor) and val.ndim:
        refuse("a diagonal of many values")
    fill(a.diagonal(), val)


def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """``numpy.copyto``"""
    wanted = NUMPY_DTYPES[dst.dtype]
    found = np.result_type(
        numpy_type(src), wanted if isinstance(src, int | float) else numpy_type(src)
    )
    if not np.can_cast(found, wanted, casting):
        refuse("a copy that changes the kind of numbers")
    value = tensor_of(src, wanted).expand(dst.shape)
    dst.copy_(value if where is True else torch.where(tensor_of(where), value, dst))


def copy(self: Any, order: Any = "C") -> Any:
    """``ndarray.copy``"""
    if order == "F":
        refuse("a copy in another order")
    kept = torch.contiguous_format if order == "C" else torch.preserve_format
    return self.clone(memory_format=kept)


def astype(
    self: Any, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: Any = True,
    copy: Any = True,
) -> Any:  # fmt: skip
    """``ndarray.astype``"""
    plain_order(order)
    if self.is_complex() and np.dtype(dtype).kind != "c":
        refuse("a conversion that drops the imaginary parts, which NumPy warns of")
    if not np.can_cast(NUMPY_DTYPES[self.dtype], np.dtype(dtype), casting):
        refuse("a conversion that this casting forbids")
    return self.to(torch_dtype(dtype), copy=bool(copy))


def view(self: Any, dtype: Any = None) -> Any:
    """``ndarray.view``: the same memory, read as another type"""
    wanted = self.dtype if dtype is None else torch_dtype(dtype)
    if wanted.itemsize != self.dtype.itemsize:
        refuse("a view with elements of another size")
    return self.view(wanted)


def fill(self: Any, value: Any) -> None:
    """``ndarray.fill``"""
    self.copy_(tensor_of(value, NUMPY_DTYPES[self.dtype]).expand(self.shape))
