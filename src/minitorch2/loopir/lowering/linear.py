"""Products of vectors and matrices that are loops, and distances."""

from __future__ import annotations

import torch

from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.expressions import product
from minitorch2.loopir.lowering.combine import cat
from minitorch2.loopir.lowering.matmul import library_call
from minitorch2.loopir.lowering.normalization import vector_norm
from minitorch2.loopir.lowering.pointwise import mul, sub
from minitorch2.loopir.lowering.registry import NoLoopForm, lowering, make_pointwise
from minitorch2.loopir.ops import Number
from minitorch2.loopir.views import normalize_dim, permute, reshape, slice_

aten = torch.ops.aten


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
