"""Copies and conversions: the same elements in other memory, dtype or bits."""

from __future__ import annotations

from typing import Any

import torch

from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.lowering.registry import NoLoopForm, lowering, map_elements
from minitorch2.loopir.ops import Value, ops
from minitorch2.loopir.views import expand
from minitorch2.native.torch_internals.global_state import with_number

aten = torch.ops.aten


def identity(dtype: torch.dtype, x: Value) -> Value:
    """Return the element itself."""
    return x


@lowering(torch.ops.prims.convert_element_type)
def convert(x: TensorBox, dtype: torch.dtype) -> TensorBox:
    """Return a new tensor with the elements of `x` as `dtype`."""
    return map_elements(identity, (x,), dtype, dtype)


@lowering(aten._to_copy)
def to_copy(
    x: TensorBox, *, dtype: torch.dtype | None = None, device: object = None, **options: Any
) -> TensorBox:
    """`x.to(dtype)`; a change of device is left to PyTorch."""
    if device is not None and with_number(torch.device(str(device))) != x.device:
        raise NoLoopForm("another device")
    return convert(x, dtype or x.dtype)


@lowering(aten.clone)
def clone(x: TensorBox, **options: Any) -> TensorBox:
    """Return a copy; its strides are those that the graph's fake tensor has."""
    return convert(x, x.dtype)


@lowering(aten.copy)
def copy(x: TensorBox, source: TensorBox, non_blocking: bool = False) -> TensorBox:
    """Return the elements of `source`, broadcast and converted to the size and dtype of `x`."""
    if source.device != x.device:
        raise NoLoopForm("another device")
    return convert(expand(source, x.size), x.dtype)


@lowering(aten.view.dtype)
def view_dtype(x: TensorBox, dtype: torch.dtype) -> TensorBox:
    """Return the same bits as another dtype of the same width."""
    if dtype.itemsize != x.dtype.itemsize or torch.bool in (dtype, x.dtype):
        raise NoLoopForm("another width")
    source = x.dtype

    def body(_: torch.dtype, v: Value) -> Value:
        return ops.to_dtype_bitcast(v, dtype, source)

    return map_elements(body, (x,), source, dtype)
