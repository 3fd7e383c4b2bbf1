"""Reductions: one loop nest over the kept dimensions, another over the reduced ones.

Variance is computed in two passes (mean, then squared differences) rather than by Welford's
update: each pass is a plain sum, which vectorizes without a division per element, fuses with its
neighbours and is at least as accurate. Low-precision inputs are reduced in float32.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.loops import Index, Reduction
from minitorch2.loopir.lowering.registry import lowering
from minitorch2.loopir.ops import ReductionKind, Value, compute_dtype, ops
from minitorch2.loopir.views import normalize_dim

aten = torch.ops.aten


def reduced_dims(ndim: int, dim: int | Sequence[int] | None) -> list[int]:
    """The dimensions to reduce, sorted; None or an empty list means all."""
    if isinstance(dim, int):
        return [normalize_dim(dim, ndim)] if ndim else []
    return sorted({normalize_dim(d, ndim) for d in dim}) if dim and ndim else list(range(ndim))


def make_reduction(
    x: TensorBox,
    kind: ReductionKind,
    dim: int | Sequence[int] | None,
    keepdim: bool,
    dtype: torch.dtype,
) -> TensorBox:
    """Reduce dimensions of `x`, converted to `dtype` first; the result has dtype `dtype`."""
    dims = reduced_dims(x.ndim, dim)
    kept = [d for d in range(x.ndim) if d not in dims]
    load = x.make_loader()

    def inner_fn(index: Index, reduction_index: Index) -> Value:
        position = _join(x.ndim, dims, kept, index, reduction_index, keepdim)
        value = load(position)
        return value if x.dtype == dtype else ops.to_dtype(value, dtype)

    size = tuple(1 if d in dims else x.size[d] for d in range(x.ndim) if keepdim or d in kept)
    return TensorBox.create(
        Reduction(x.device, dtype, size, inner_fn, tuple(x.size[d] for d in dims), kind,
                  compute_dtype(dtype))
    )  # fmt: skip


def _join(
    ndim: int, dims: list[int], kept: list[int], index: Index, reduction: Index, keepdim: bool
) -> Index:
    """The full index of an element from its kept and its reduced coordinates."""
    outer = [index[d] for d in kept] if keepdim else list(index)
    full = dict(zip(kept, outer, strict=True)) | dict(zip(dims, reduction, strict=True))
    return tuple(full[d] for d in range(ndim))


def accumulation_dtype(x: TensorBox, dtype: torch.dtype | None) -> torch.dtype:
    """The dtype of a sum or product: the asked one, or int64 for integers and bool."""
    return dtype or (x.dtype if x.dtype.is_floating_point else torch.int64)


@lowering(aten.sum)
def sum_(
    x: TensorBox,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> TensorBox:
    """The sum along dimensions."""
    return make_reduction(x, "sum", dim, keepdim, accumulation_dtype(x, dtype))
