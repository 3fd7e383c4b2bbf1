"""Compositions of reductions and elementwise functions: softmax, logsumexp, norms."""

from __future__ import annotations

import math

import torch

from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.lowering.conversion import convert
from minitorch2.loopir.lowering.reduction_loops import (
    Dims,
    ReducedDims,
    cast,
    make_reduction,
    wide,
)
from minitorch2.loopir.lowering.registry import (
    PointwiseBody,
    lowering,
    make_pointwise,
    map_elements,
    number_value,
)
from minitorch2.loopir.ops import Number, ReductionKind, Value, ops
from minitorch2.loopir.promotion import Promotion
from minitorch2.loopir.views import reshape

aten = torch.ops.aten


@lowering(aten.logsumexp)
def logsumexp(x: TensorBox, dim: Dims, keepdim: bool = False) -> TensorBox:
    """`log(sum(exp(x)))`, shifted by the largest element unless that is infinite."""
    x = make_pointwise(lambda _, v: v, (x,), Promotion.INT_TO_FLOAT)
    kind = wide(x.dtype)
    largest = make_reduction(x, "max", dim, True, kind)

    def finite(dtype: torch.dtype, m: Value) -> Value:
        return ops.where(ops.isinf(m), number_value(0, dtype), m)

    shift = make_pointwise(finite, (largest,))
    powers = map_elements(lambda _, v, s: ops.exp(ops.sub(v, s)), (x, shift), kind, kind)
    total = make_reduction(powers, "sum", dim, True, kind)
    result = make_pointwise(lambda _, v, s: ops.add(ops.log(v), s), (total, shift))
    size = ReducedDims(x, dim, keepdim).ranges
    return convert(reshape(result, size), x.dtype)


@lowering(aten._softmax)
def softmax(x: TensorBox, dim: int, half_to_float: bool) -> TensorBox:
    """`exp(x - max) / sum(exp(x - max))`"""
    dtype = torch.float32 if half_to_float else x.dtype
    powers, total = _shifted_powers(x, dim)
    kind = wide(dtype)
    return map_elements(lambda _, v, s: ops.truediv(v, s), (powers, total), kind, dtype)


@lowering(aten._log_softmax)
def log_softmax(x: TensorBox, dim: int, half_to_float: bool) -> TensorBox:
    """`x - max - log(sum(exp(x - max)))`"""
    dtype = torch.float32 if half_to_float else x.dtype
    kind = wide(dtype)
    largest = make_reduction(x, "max", dim, True, kind)
    shifted = map_elements(lambda _, v, m: ops.sub(v, m), (x, largest), kind, kind)
    powers = make_pointwise(lambda _, v: ops.exp(v), (shifted,))
    total = make_reduction(powers, "sum", dim, True, kind)
    return map_elements(lambda _, v, s: ops.sub(v, ops.log(s)), (shifted, total), kind, dtype)


def _shifted_powers(x: TensorBox, dim: int) -> tuple[TensorBox, TensorBox]:
    """`exp(x - max)`, which may become large before it is divided, and its sum."""
    kind = wide(x.dtype)
    largest = make_reduction(x, "max", dim, True, kind)
    powers = map_elements(lambda _, v, m: ops.exp(ops.sub(v, m)), (x, largest), kind, kind)
    powers.storage.realize("softmax reads the exponentials twice")
    return powers, make_reduction(powers, "sum", dim, True, kind)


@lowering(aten.linalg_vector_norm)
def vector_norm(
    x: TensorBox,
    order: Number = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> TensorBox:
    """`sum(|x| ** order) ** (1 / order)`, and its limits for 0 and the infinities."""
    result_dtype = dtype or x.dtype
    x, kind = cast(x, result_dtype), wide(result_dtype)
    magnitude = map_elements(lambda _, v: ops.abs(v), (x,), kind, kind)
    if math.isinf(order):
        extreme: ReductionKind = "max" if order > 0 else "min"
        return convert(make_reduction(magnitude, extreme, dim, keepdim, kind), result_dtype)
    if order == 0:
        return convert(make_reduction(cast(x, torch.bool), "sum", dim, keepdim, kind), result_dtype)
    powers = magnitude if order == 1 else make_pointwise(_powered(order), (magnitude,))
    total = make_reduction(powers, "sum", dim, keepdim, kind)
    root = total if order == 1 else make_pointwise(_rooted(order), (total,))
    return convert(root, result_dtype)


@lowering(aten.norm.Scalar, aten.norm.ScalarOpt_dtype, aten.norm.ScalarOpt_dim,
          aten.norm.ScalarOpt_dim_dtype)  # fmt: skip
def norm(
    x: TensorBox,
    order: Number | None = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> TensorBox:
    """`vector_norm` under its older name."""
    return vector_norm(x, 2 if order is None else order, dim, keepdim, dtype=dtype)


def _powered(order: Number) -> PointwiseBody:
    if order == 2:
        return lambda dtype, v: ops.mul(v, v)
    return lambda dtype, v: ops.pow(v, number_value(float(order), dtype))


def _rooted(order: Number) -> PointwiseBody:
    if order == 2:
        return lambda dtype, v: ops.sqrt(v)
    return lambda dtype, v: ops.pow(v, number_value(1 / order, dtype))
