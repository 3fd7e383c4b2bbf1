"""Elementwise operators: arithmetic, comparison, logic, mathematics, activations.

A body sees values of the compute dtype; see `registry.pointwise`.
"""

from __future__ import annotations

import torch

from minitorch2.loopir.lowering.registry import number_value, pointwise
from minitorch2.loopir.ops import Number, Value, ops
from minitorch2.loopir.promotion import Promotion

aten = torch.ops.aten
FLOAT = Promotion.INT_TO_FLOAT
BOOL = Promotion.ALWAYS_BOOL

UNARY_FLOAT = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "erfc", "exp",
    "exp2", "expm1", "lgamma", "log", "log10", "log1p", "log2", "rsqrt", "sigmoid", "sin", "sinh",
    "sqrt", "tan", "tanh",
)  # fmt: skip
"""Operators that are one primitive of the same name, on floats."""


def _register_unary(name: str) -> None:
    @pointwise(getattr(aten, name), promote=FLOAT)
    def body(dtype: torch.dtype, x: Value) -> Value:
        primitive: Value = getattr(ops, name)(x)
        return primitive


for _name in UNARY_FLOAT:
    _register_unary(_name)


@pointwise(aten.add)
def add(dtype: torch.dtype, x: Value, y: Value, *, alpha: Number = 1) -> Value:
    """`x + alpha * y`"""
    return ops.add(x, _scaled(dtype, y, alpha))


@pointwise(aten.sub)
def sub(dtype: torch.dtype, x: Value, y: Value, *, alpha: Number = 1) -> Value:
    """`x - alpha * y`"""
    return ops.sub(x, _scaled(dtype, y, alpha))


def _scaled(dtype: torch.dtype, y: Value, alpha: Number) -> Value:
    return y if alpha == 1 else ops.mul(y, number_value(alpha, dtype))


@pointwise(aten.mul)
def mul(dtype: torch.dtype, x: Value, y: Value) -> Value:
    """`x * y`; of bools, `x and y`"""
    return ops.logical_and(x, y) if dtype == torch.bool else ops.mul(x, y)
