"""Products of matrices with odd sizes: of padded operands, or of rows that begin at even addresses.

    (m, k) @ (k, n)  =  ((m, k + p) @ (k + p, n + q))[:, :n]        the padding is 0

A GPU's library has fast kernels for 16-bit matrices whose sizes are multiples of 8. A language
model's head of 50,257 words takes eight times as long without them. The padded copies take a small
part of that, and readers of the result do not see them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch

from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.layout import ROW_BYTES, aligned_strides, contiguous_strides
from minitorch2.loopir.lowering.combine import constant_pad_nd
from minitorch2.loopir.lowering.fallback import extern_call
from minitorch2.loopir.views import permute, slice_
from minitorch2.native.torch_internals.operators import OpOverload

ALIGNING: Final = {"cuda": (torch.float16, torch.bfloat16)}
"""Where a product is several times as slow if rows begin at odd addresses, by type of device."""
LEAST_WORK: Final = 2**30
"""Multiplications of a product from which padding saves more than its copies cost."""


def padded_product(target: OpOverload, *args: TensorBox) -> TensorBox | None:
    """Return ``a @ b``, or ``bias + a @ b`` for a vector, by way of padded operands.

    Args:
        target: `aten.mm.default` or `aten.addmm.default`, of ``args``.

    Returns:
        The result; None where the library is as fast without padding.
    """
    *bias, a, b = args
    sizes = *a.size, b.size[1]
    if a.dtype not in ALIGNING.get(a.device.type, ()) or not all(isinstance(n, int) for n in sizes):
        return None
    rows, inner, columns = map(int, sizes)
    multiple = ROW_BYTES // a.dtype.itemsize
    more_inner, more_columns = -inner % multiple, -columns % multiple
    is_small = rows * inner * columns < LEAST_WORK
    if is_small or not (more_inner or more_columns) or any(each.ndim != 1 for each in bias):
        return None
    wide = torch.empty(rows, columns + more_columns, dtype=a.dtype, device="meta")
    added = [constant_pad_nd(each, [0, more_columns]) for each in bias if more_columns] or bias
    operands = _padded(a, 0, more_inner), _padded(b, more_inner, more_columns)
    product = extern_call(target, (*added, *operands), {}, FakeTensor(wide, a.device))
    return slice_(product, 1, 0, columns) if more_columns else product


def _padded(box: TensorBox, rows: int, columns: int) -> TensorBox:
    """Append zeros to a matrix; it stays as it lies in memory, by rows or by columns."""
    if not (rows or columns):
        return box
    layout = box.strided_layout()
    if layout is not None and layout.stride[0] == 1:
        return permute(constant_pad_nd(permute(box, [1, 0]), [0, rows, 0, columns]), [1, 0])
    return constant_pad_nd(box, [0, columns, 0, rows])


def align_rows(operands: Sequence[TensorBox]) -> None:
    """Lay operands out with gaps between rows, so that each begins at a multiple of 16 bytes.

    The gradient of 50,257 words has odd rows. The product that makes the weights' gradient of it
    reads 16 bytes at once if they are aligned. Operands that have their layout already keep it.
    """
    for box in operands:
        if box.dtype not in ALIGNING.get(box.device.type, ()):
            continue
        gaps = aligned_strides(box.storage.size, box.dtype.itemsize)
        if gaps and box.storage.preferred_stride in (None, contiguous_strides(box.storage.size)):
            box.storage.realize("a product reads memory").fixed_layout(gaps)
