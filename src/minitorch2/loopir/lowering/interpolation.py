"""Enlarging images: nearest neighbours by whole factors are views; the rest is the library's."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.expressions import Expr, floor_div
from minitorch2.loopir.loops import Index
from minitorch2.loopir.lowering.matmul import library_call
from minitorch2.loopir.lowering.registry import lowering

aten = torch.ops.aten


def _register_nearest(dims: int) -> None:
    target = getattr(aten, f"upsample_nearest{dims}d").default

    @lowering(target)
    def upsample_nearest(
        x: TensorBox, output_size: Sequence[Expr], *scales: float | None
    ) -> TensorBox:
        """`out[.., i, j] = x[.., i // f, j // f]` for factors f whose inverse is exact."""
        pairs = zip(x.size[2:], output_size, scales, strict=True)
        factors = [_factor(*pair) for pair in pairs]
        if None in factors:
            return library_call(target, x, list(output_size), *scales)

        def reindex(index: Index) -> Index:
            near = (floor_div(i, f) for i, f in zip(index[2:], factors, strict=True) if f)
            return (*index[:2], *near)

        return x.view((*x.size[:2], *output_size), reindex).copy()


def _factor(size: Expr, wanted: Expr, scale: float | None) -> int | None:
    """Return the power of two that a side grows by; eager multiplies with inverses, in float32."""
    if not (isinstance(size, int) and isinstance(wanted, int) and size and wanted % size == 0):
        return None
    factor = wanted // size
    is_power = factor & (factor - 1) == 0
    return factor if is_power and scale in (None, float(factor)) else None


for _dims in (1, 2, 3):
    _register_nearest(_dims)
