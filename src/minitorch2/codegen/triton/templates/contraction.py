"""Contractions: matrix products and convolutions as sums of products of two operands.

    result[batch, x, y] = sum over tap, r of left[batch, tap, x, r] * right[batch, tap, r, y]

A matrix product has one tap. A convolution has one tap for each element of its window. A row x is a
place of the result's images, a column y one of its channels, r a channel of the input. If channels
are few, a tap is a whole row of the window, and r an element of it. The left operand is then the
images, each tap at other positions, and 0 where these are outside (Chetlur et al., "cuDNN:
Efficient Primitives for Deep Learning", 2014). This is an implicit product: the matrix of all
windows is never stored. Other modules treat both alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

from minitorch2.codegen.triton.indexing import BATCH, KINDEX, RINDEX, TAP, XINDEX, YINDEX, unflatten
from minitorch2.loopir.buffers import BufferView, ExternArgument, ExternKernel
from minitorch2.loopir.expressions import (
    Expr,
    Ranges,
    bounds,
    is_less,
    is_nonnegative,
    product,
    simplify,
)
from minitorch2.loopir.layout import FixedLayout, contiguous_strides, same_strides

aten = torch.ops.aten
_FEW: Final = 16
"""Fewer channels than a step of the loop takes at least."""
_DTYPES: Final = (torch.float16, torch.bfloat16, torch.float32)


@dataclass(frozen=True)
class Operand:
    """Elements of `view` at `index`, an expression of batch, tap, row or column, and r; 0 where a
    position of `inside` is not in `0 <= position < size`."""

    view: BufferView
    index: tuple[Expr, ...]
    inside: tuple[tuple[Expr, int], ...] = ()

    @property
    def address(self) -> Expr:
        """The place in the buffer's memory."""
        return self.view.layout.index(self.index)


@dataclass(frozen=True)
class Contraction:
    """The sum of the module's docstring: its sizes (`m` rows, `n` columns, `k` of each tap), its
    operands, one number a column to add, and how float32 operands are multiplied."""

    batches: int
    m: Expr
    n: int
    k: int
    taps: int
    left: Operand
    right: Operand
    bias: BufferView | None
    precision: str

    @staticmethod
    def of(kernel: ExternKernel) -> Contraction | None:
        """Return a library call as a contraction into dense memory, rows first; None for others."""
        make = _MAKERS.get(kernel.target)  # type: ignore[call-overload]
        if make is None or kernel.kwargs or kernel.dtype not in _DTYPES:
            return None
        found: Contraction | None = make(*kernel.args, kernel.fixed_layout())
        sizes = found and (found.batches, found.n, found.k, found.taps)
        known = sizes and all(isinstance(size, int) and size > 0 for size in sizes)
        return found if found and known and found.m != 0 and _is_plain(found.bias) else None

    def ranges(self) -> Ranges:
        """Return the range of each index symbol."""
        symbols = (XINDEX, YINDEX, RINDEX, KINDEX, BATCH, TAP)
        return tuple(zip(symbols, (self.m, self.n, self.k, self.k, self.batches, self.taps)))

    def flat(self) -> Expr:
        """Return the number of an element of the result, in row-major order."""
        sizes = (self.batches, self.m, self.n)
        places = zip((BATCH, XINDEX, YINDEX), sizes, strict=True)
        batch, x, y = (0 if size == 1 else symbol for symbol, size in places)
        return simplify((batch * self.m + x) * self.n + y, self.ranges())

    @property
    def elements(self) -> Expr:
        """The number of elements of the result."""
        return product((self.batches, self.m, self.n))


def _is_plain(bias: BufferView | None) -> bool:
    return bias is None or len(bias.layout.size) == 1


def _product(a: BufferView, b: BufferView, layout: FixedLayout) -> Contraction | None:
    return _biased_product(None, a, b, layout)


def _biased_product(
    bias: BufferView | None, a: BufferView, b: BufferView, layout: FixedLayout
) -> Contraction | None:
    if not layout.is_contiguous():
        return None
    *batches, m, n = layout.size
    places = (BATCH,) * len(batches)
    left = Operand(a, (*places, XINDEX, RINDEX))
    right = Operand(b, (*places, KINDEX, YINDEX))
    precision = "tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee"
    k, (batch,) = a.layout.size[-1], batches or [1]
    return Contraction(batch, m, n, k, 1, left, right, bias, precision)


def _convolution(
    x: BufferView,
    weight: BufferView,
    bias: BufferView | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: ExternArgument,
    groups: int,
    layout: FixedLayout,
) -> Contraction | None:
    images, n, *places = layout.size
    _, k, *window = weight.layout.size
    steps = (*stride, *padding, *dilation, *places, *window, *x.layout.size[2:], k)
    is_known = len(steps) == 6 * len(places) + 1 and all(isinstance(step, int) for step in steps)
    if transposed or groups != 1 or not is_known or not _has_channels_last(layout):
        return None
    # Few channels: what lies beside each other in memory is a row of the window.
    cut = len(window) - (k < _FEW)
    outer, inner = window[:cut], (*window[cut:], k)
    rows, taps, depth = (product(sizes) for sizes in ((images, *places), outer, inner))
    limits: Ranges = ((XINDEX, rows), (TAP, taps), (RINDEX, depth), (KINDEX, depth))
    image, *corners = unflatten(XINDEX, (images, *places), limits)
    tap = unflatten(TAP if taps != 1 else 0, outer, limits)
    *offsets, channel = (*tap, *unflatten(RINDEX, inner, limits))
    *of_weight, depth_of = (*tap, *unflatten(KINDEX, inner, limits))
    positions = [simplify(at * step - pad + by * apart, limits) for at, step, pad, by, apart
                 in zip(corners, stride, padding, offsets, dilation, strict=True)]  # fmt: skip
    inside = tuple(
        (position, int(size))
        for position, size in zip(positions, x.layout.size[2:], strict=True)
        if not _is_inside(position, size, limits)
    )
    left = Operand(x, (image, channel, *positions), inside)
    right = Operand(weight, (YINDEX, depth_of, *of_weight))
    precision = "tf32" if torch.backends.cudnn.allow_tf32 else "ieee"
    return Contraction(1, rows, n, depth, taps, left, right, bias, precision)


def _has_channels_last(layout: FixedLayout) -> bool:
    """Return whether the result's elements lie in the order image, places, channel."""
    size, stride = layout.size, layout.stride
    moved = (size[0], *size[2:], size[1])
    order = (stride[0], *stride[2:], stride[1])
    return layout.offset == 0 and same_strides(moved, order, contiguous_strides(moved))


def _is_inside(position: Expr, size: Expr, limits: Ranges) -> bool:
    found = bounds(position, limits)
    return found is not None and is_nonnegative(found[0]) and is_less(found[1], size)


_MAKERS: Final = {
    aten.mm.default: _product,
    aten.bmm.default: _product,
    aten.addmm.default: _biased_product,
    aten.convolution.default: _convolution,
}
