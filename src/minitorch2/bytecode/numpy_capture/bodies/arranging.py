"""Shapes, parts, joining and splitting."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from minitorch2.bytecode.numpy_capture.bodies.dtypes import (
    NUMPY_DTYPES,
    axes_given,
    has_axis,
    numpy_type,
    plain_order,
    promoted,
    refuse,
    size_of,
    stored,
    tensor_of,
)


def diagonal(self: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """``ndarray.diagonal``"""
    return self.diagonal(offset, axis1, axis2)


def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    """``numpy.broadcast_to``"""
    return tensor_of(array).expand(size_of(shape))


def concatenate(
    arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Any:
    """``numpy.concatenate``"""
    parts = promoted([tensor_of(part) for part in arrays], dtype)
    if axis is None:
        parts, axis = [part.reshape(-1) for part in parts], 0
    if any(part.ndim != parts[0].ndim or part.ndim == 0 for part in parts):
        refuse("arrays of different dimensions")  # PyTorch ignores an empty one
    return stored(torch.cat(parts, axis), out)


def where(condition: Any, *choices: Any) -> Any:
    """``numpy.where``"""
    mask = tensor_of(condition)
    if len(choices) != 2:
        return torch.nonzero(mask, as_tuple=True)
    dtype = np.result_type(*[numpy_type(choice) for choice in choices])
    return torch.where(mask.to(torch.bool), *[tensor_of(choice, dtype) for choice in choices])


def broadcast_arrays(*args: Any, subok: bool = False) -> Any:
    """``numpy.broadcast_arrays``"""
    parts = [tensor_of(part) for part in args]
    if any(part.shape != parts[0].shape for part in parts):
        refuse("views that are warned of when they are written to")
    return tuple(parts)


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    """``numpy.meshgrid``"""
    if sparse or not copy:
        refuse("numpy.meshgrid of views")
    grids = torch.meshgrid(*[tensor_of(x).reshape(-1) for x in xi], indexing=indexing)
    return tuple([grid.clone(memory_format=torch.contiguous_format) for grid in grids])


def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """``numpy.pad``"""
    value = tensor_of(array)
    number = kwargs.get("constant_values", 0)
    if mode != "constant" or not isinstance(number, int | float):
        refuse("padding with other things than one number")
    widths = [pad_width] * value.ndim if isinstance(pad_width, int) else list(pad_width)
    if isinstance(pad_width, tuple) and len(widths) == 2 and isinstance(widths[0], int):
        widths = [tuple(widths)] * value.ndim
    pairs = [(width, width) if isinstance(width, int) else width for width in widths]
    if len(pairs) != value.ndim or any(before < 0 or after < 0 for before, after in pairs):
        refuse("padding of another form")
    shape = [before + size + after for size, (before, after) in zip(value.shape, pairs)]
    made = torch.zeros(shape, dtype=value.dtype) + tensor_of(number, NUMPY_DTYPES[value.dtype])
    inner = [slice(before, before + size) for size, (before, _) in zip(value.shape, pairs)]
    made[tuple(inner)] = value
    return made


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    """``numpy.array_split``"""
    value, given = tensor_of(ary), indices_or_sections
    size = value.shape[axis]
    if isinstance(given, int):
        each, extra = divmod(size, given)
        ends = [each * i + min(i, extra) for i in range(1, given)]
    elif isinstance(given, list | tuple):
        ends = [min(size + end if end < 0 else end, size) for end in given]
    else:
        refuse("sections that are data")
    places = zip([0, *ends], [*ends, size], strict=True)
    return [value.narrow(axis, start, max(end - start, 0)) for start, end in places]


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """``numpy.roll``"""
    value = tensor_of(a)
    if axis is None:
        if not isinstance(shift, int):
            refuse("numpy.roll by many shifts")
        return torch.roll(value.reshape(-1), shift).reshape(value.shape)
    axes = size_of(axis)
    shifts = [shift] * len(axes) if isinstance(shift, int) else list(shift)
    if len(shifts) != len(axes):
        refuse("numpy.roll by many shifts")
    return torch.roll(value, shifts, axes)


def tile(A: Any, reps: Any) -> Any:
    """``numpy.tile``"""
    return torch.tile(tensor_of(A), size_of(reps)).clone()


def reshape(self: Any, *shape: Any, order: Any = "C", copy: Any = None) -> Any:
    """``ndarray.reshape``"""
    plain_order(order)
    if order == "A" or copy is False:
        refuse("reshape in another order, or without a copy")
    made = self.reshape(size_of(axes_given(shape)))
    return made.clone() if copy else made


def ravel(self: Any, order: Any = "C") -> Any:
    """``ndarray.ravel``"""
    if self.is_contiguous() and order != "F":
        return self.view(-1)
    return flatten(self, order)


def flatten(self: Any, order: Any = "C") -> Any:
    """``ndarray.flatten``"""
    if order != "C":
        refuse("flatten in another order")
    return self.clone(memory_format=torch.contiguous_format).view(-1)


def transpose(self: Any, *axes: Any) -> Any:
    """``ndarray.transpose``"""
    given = axes_given(axes)
    if not given or given == (None,):
        given = tuple(reversed(range(self.ndim)))
    return self.permute(given)


def swapaxes(self: Any, axis1: int, axis2: int) -> Any:
    """``ndarray.swapaxes``"""
    return self.transpose(axis1, axis2)


def squeeze(self: Any, axis: Any = None) -> Any:
    """``ndarray.squeeze``"""
    if axis is None:
        return self.squeeze()
    if any(self.shape[place] != 1 for place in size_of(axis)):
        refuse("an axis that is not of size one")  # which is an error
    return self.squeeze(size_of(axis))


def take(self: Any, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
    """``ndarray.take``"""
    if mode != "raise":
        refuse("indices that wrap around or are clipped")
    has_axis(self, axis)
    values, axis = (self.reshape(-1), 0) if axis is None else (self, axis % self.ndim)
    index = tensor_of(indices, np.int64)
    return stored(values[(*[slice(None)] * axis, index)], out)


def repeat(self: Any, repeats: Any, axis: Any = None) -> Any:
    """``ndarray.repeat``"""
    if not isinstance(repeats, int):
        refuse("repetitions that are data")
    has_axis(self, axis)
    if axis is None:
        return self.reshape(-1).repeat_interleave(repeats, 0)
    return self.repeat_interleave(repeats, axis)


def nonzero(self: Any) -> Any:
    """``ndarray.nonzero``"""
    return torch.nonzero(self, as_tuple=True)


def item(self: Any, *args: Any) -> Any:
    """``ndarray.item``"""
    if not args:
        return self.item()
    index = axes_given(args)
    return (self.reshape(-1)[index[0]] if len(index) == 1 else self[tuple(index)]).item()


def tolist(self: Any) -> Any:
    """``ndarray.tolist``"""
    return self.tolist()
