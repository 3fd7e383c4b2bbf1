"""Products of vectors and matrices that are loops, distances, and losses made of them."""

from __future__ import annotations

import torch

from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.expressions import product
from minitorch2.loopir.lowering.combine import cat
from minitorch2.loopir.lowering.conversion import convert
from minitorch2.loopir.lowering.matmul import library_call
from minitorch2.loopir.lowering.normalization import vector_norm
from minitorch2.loopir.lowering.pointwise import add, mul, sub
from minitorch2.loopir.lowering.reduction import sum_, wide_mean
from minitorch2.loopir.lowering.reduction_loops import accumulation_dtype, make_reduction
from minitorch2.loopir.lowering.registry import (
    NoLoopForm,
    lowering,
    make_pointwise,
    map_elements,
)
from minitorch2.loopir.ops import Number, Value, ops
from minitorch2.loopir.views import (
    diagonal,
    normalize_dim,
    permute,
    reshape,
    slice_,
    unsqueeze,
)

aten = torch.ops.aten


@lowering(aten.addr)
def addr(
    x: TensorBox, first: TensorBox, second: TensorBox, *, beta: Number = 1, alpha: Number = 1
) -> TensorBox:
    """`beta * x + alpha * outer(first, second)`; x is not read if beta is 0."""
    outer = make_pointwise(mul, (unsqueeze(first, 1), unsqueeze(second, 0)))
    scaled = outer if alpha == 1 else make_pointwise(mul, (outer, alpha))
    if beta == 0:
        return scaled
    return make_pointwise(add, (x if beta == 1 else make_pointwise(mul, (x, beta)), scaled))


@lowering(aten.trace)
def trace(x: TensorBox) -> TensorBox:
    """Return the sum of the main diagonal."""
    rows, columns = x.size
    if not (isinstance(rows, int) and isinstance(columns, int)):
        raise NoLoopForm("which side is shorter is not known")
    line = diagonal(x, 0, 0, 1, min(rows, columns))
    return make_reduction(line, "sum", None, False, accumulation_dtype(x, None))


@lowering(aten.linalg_cross)
def cross(x: TensorBox, y: TensorBox, *, dim: int = -1) -> TensorBox:
    """Return the cross product of vectors of three elements along a dimension."""
    dim = normalize_dim(dim, max(x.ndim, y.ndim))

    def part(box: TensorBox, turn: int) -> TensorBox:
        axis = dim - (max(x.ndim, y.ndim) - box.ndim)
        return cat([slice_(box, axis, turn, 3 - turn), slice_(box, axis, 0, turn)], axis)

    forward = make_pointwise(mul, (part(x, 1), part(y, 2)))
    return make_pointwise(sub, (forward, make_pointwise(mul, (part(x, 2), part(y, 1)))))


@lowering(aten.dist)
def dist(x: TensorBox, y: TensorBox, p: Number = 2) -> TensorBox:
    """Return the p-norm of the difference."""
    return vector_norm(make_pointwise(sub, (x, y)), p)


@lowering(aten.addbmm)
def addbmm(
    x: TensorBox, first: TensorBox, second: TensorBox, *, beta: Number = 1, alpha: Number = 1
) -> TensorBox:
    """`beta * x + alpha * (sum of first[i] @ second[i])`: one product of wide matrices."""
    count, rows, inner = first.size
    if not x.dtype.is_floating_point:
        raise NoLoopForm("a product of integers")
    wide = product((count, inner))
    left = reshape(permute(first, (1, 0, 2)), (rows, wide))
    right = reshape(second, (wide, second.size[2]))
    return library_call(aten.addmm.default, x, left, right, beta=beta, alpha=alpha)


# -- losses -------------------------------------------------------------------------------------


def _reduced(x: TensorBox, reduction: int) -> TensorBox:
    """0 leaves the elements, 1 gives their mean, 2 their sum."""
    if reduction == 1:
        return convert(wide_mean(x, None, False), x.dtype)
    return sum_(x) if reduction else x


@lowering(aten.soft_margin_loss)
def soft_margin_loss(x: TensorBox, target: TensorBox, reduction: int = 1) -> TensorBox:
    """`log(1 + exp(-target * x))`"""

    def body(dtype: torch.dtype, v: Value, t: Value) -> Value:
        return ops.log1p(ops.exp(ops.neg(ops.mul(t, v))))

    return _reduced(make_pointwise(body, (x, target)), reduction)


@lowering(aten.soft_margin_loss_backward)
def soft_margin_loss_backward(
    grad: TensorBox, x: TensorBox, target: TensorBox, reduction: int
) -> TensorBox:
    """`-grad * target * sigmoid(-target * x)`, divided by the count for a mean."""

    def body(dtype: torch.dtype, g: Value, v: Value, t: Value, n: Value) -> Value:
        part = ops.sigmoid(ops.neg(ops.mul(t, v)))
        return ops.truediv(ops.mul(ops.neg(ops.mul(g, t)), part), n)

    count = product(x.size) if reduction == 1 else 1
    return map_elements(body, (grad, x, target, count), x.dtype, x.dtype)
