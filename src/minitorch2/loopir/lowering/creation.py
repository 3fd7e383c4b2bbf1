"""Tensors from nothing: constants and functions of the index alone. They are not stored unless a
reader needs their memory: readers compute the element.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import sympy
import torch

from minitorch2.graph.symbols import expr_of
from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.buffers import current_table
from minitorch2.loopir.expressions import Expr, to_expr
from minitorch2.loopir.loops import Index, InnerFn, Pointwise
from minitorch2.loopir.lowering.registry import lowering, number_value
from minitorch2.loopir.ops import Value, compute_dtype, ops
from minitorch2.native.torch_internals.global_state import is_memory_filled

aten = torch.ops.aten
Scalar: TypeAlias = bool | int | float | sympy.Expr


def full(
    size: Sequence[Expr], value: Scalar, dtype: torch.dtype, device: torch.device
) -> TensorBox:
    """Return one number everywhere."""

    def inner_fn(index: Index) -> Value:
        return number_value(value, compute_dtype(dtype))

    return TensorBox.create(Pointwise(device, dtype, tuple(size), inner_fn))


def _filled(value: Scalar) -> TensorBox:
    """Return a constant tensor in the size, dtype and device that the node's fake result has."""
    fake = current_table().result
    return full(tuple(map(expr_of, fake.shape)), value, fake.dtype, fake.device)


@lowering(aten.full.default)
def full_(size: Sequence[Expr], value: Scalar, **options: Any) -> TensorBox:
    """`torch.full`"""
    return _filled(value)


@lowering(aten._efficientzerotensor.default)
def zeros(*args: Any, **options: Any) -> TensorBox:
    """Return zeros."""
    return _filled(0)


@lowering(
    aten.empty.memory_format, aten.empty_like.default, aten.new_empty.default,
    aten.empty_strided.default, aten.new_empty_strided.default, aten.empty_permuted.default,
)  # fmt: skip
def empty(*args: Any, **options: Any) -> TensorBox:
    """Return zeros: any value is legal, and a constant needs no memory.

    If PyTorch promises to fill uninitialized memory, the value is the one that it fills with.
    """
    is_filled = torch.are_deterministic_algorithms_enabled() and (is_memory_filled())
    return _filled(_uninitialized(current_table().result.dtype) if is_filled else 0)


def _uninitialized(dtype: torch.dtype) -> Scalar:
    """Return the value of ``torch.utils.deterministic.fill_uninitialized_memory``."""
    if dtype is torch.bool:
        return True
    is_float = dtype.is_floating_point or dtype.is_complex
    return math.nan if is_float else int(torch.iinfo(dtype).max)


def from_index(
    size: Sequence[Expr], dtype: torch.dtype, device: torch.device, body: InnerFn
) -> TensorBox:
    """Return a tensor whose element is a function of its index."""
    return TensorBox.create(Pointwise(device, dtype, tuple(size), body))


@lowering(aten.arange.start_step)
def arange_step(start: Scalar, end: Scalar, step: Scalar = 1, **options: Any) -> TensorBox:
    """`start + i * step`; of floats computed in float64 as eager does."""
    fake = current_table().result
    dtype = fake.dtype
    exact = all(isinstance(number, (int, sympy.Expr)) for number in (start, step))

    def inner_fn(index: Index) -> Value:
        if exact and not dtype.is_floating_point:
            return ops.index_expr(to_expr(start + index[0] * step), dtype)
        wide = torch.float64
        offset = ops.mul(ops.index_expr(index[0], wide), number_value(step, wide))
        return ops.to_dtype(ops.add(number_value(start, wide), offset), dtype)

    return from_index(tuple(map(expr_of, fake.shape)), dtype, fake.device, inner_fn)


@lowering(aten.eye)
def eye(*args: Any, **options: Any) -> TensorBox:
    """Return ones on the main diagonal."""
    fake = current_table().result

    def inner_fn(index: Index) -> Value:
        distance = ops.index_expr(to_expr(index[-1] - index[-2]), torch.int64)
        hit = ops.eq(distance, ops.constant(0, torch.int64))
        return ops.to_dtype(hit, fake.dtype)

    return from_index(tuple(map(expr_of, fake.shape)), fake.dtype, fake.device, inner_fn)
