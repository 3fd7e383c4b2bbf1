"""Compositions of reductions and elementwise functions: softmax, logsumexp, norms."""

from __future__ import annotations

import math

import torch

from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.lowering.conversion import convert
from minitorch2.loopir.lowering.reduction_loops import Dims, cast, make_reduction
from minitorch2.loopir.lowering.registry import (
    PointwiseBody,
    lowering,
    make_pointwise,
    map_elements,
    number_value,
)
from minitorch2.loopir.ops import Number, ReductionKind, compute_dtype, ops

aten = torch.ops.aten


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
    x, kind = cast(x, result_dtype), compute_dtype(result_dtype)
    magnitude = map_elements(lambda _, v: v if order == 2 else ops.abs(v), (x,), kind, kind)
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
