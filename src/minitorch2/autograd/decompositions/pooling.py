"""Maxima of windows, as slices: pointwise operators around a pooling join its kernel.

The place of each maximum is saved as its row and column in the window, which fit into a byte, and
not as an index of 64 bits. For each element, backward finds the windows over it that chose it, so
that no memory is zeroed or added to atomically::

    best[r, c]  = max over (i, j) of padded[step*r + i, step*c + j]
    place[r, c] = i * 2**bits + j of the first of them; the index is made of it where it is read
    grad[y, x]  = sum over the windows (r, c) over it of where(index[r, c] == (y, x), grad[r, c], 0)

A CPU's library has faster loops than these.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from minitorch2.autograd.decompositions.precision import widen
from minitorch2.autograd.decompositions.registry import register_decomposition

aten = torch.ops.aten
_LOWEST = float("-inf")


class _Windows(NamedTuple):
    """The windows along a dimension of `size` elements."""

    size: Any
    length: int
    step: int
    padding: int

    def count(self, ceil: bool) -> Any:
        """Return the number of windows; with `ceil`, the last one may reach beyond the padding."""
        rest = self.size + 2 * self.padding - self.length
        count = (rest + (self.step - 1 if ceil else 0)) // self.step + 1
        return count - 1 if ceil and (count - 1) * self.step >= self.size + self.padding else count


def _pair(numbers: Sequence[int] | int) -> tuple[int, int]:
    first, *others = [numbers] if isinstance(numbers, int) else numbers
    return first, others[0] if others else first


def _along_both(shape: Sequence[Any], window: Any, step: Any, padding: Any) -> list[_Windows]:
    parts = (shape[-2:], _pair(window), _pair(step or window), _pair(padding))
    return [_Windows(*numbers) for numbers in zip(*parts, strict=True)]


def _is_left_to_library(x: Tensor, dilation: Sequence[int] | int) -> bool:
    return x.device.type == "cpu" or not x.is_floating_point() or _pair(dilation) != (1, 1)


@register_decomposition(aten.max_pool2d_with_indices.default)
def max_pool2d(
    x: Tensor, window: Sequence[int], step: Sequence[int] = (), padding: Sequence[int] | int = 0,
    dilation: Sequence[int] | int = 1, ceil_mode: bool = False,
) -> Any:  # fmt: skip
    """Return the maximum of each window, NaN being the greatest; its index in the image."""
    if _is_left_to_library(x, dilation):
        return NotImplemented
    return maxima(x, _along_both(x.shape, window, step, padding), ceil_mode)


def maxima(x: Tensor, windows: list[_Windows], ceil_mode: bool) -> tuple[Tensor, Tensor]:
    """Decompose the operator as `max_pool2d` does."""
    vertical, horizontal = windows
    counts = [side.count(ceil_mode) for side in windows]
    padded = aten.constant_pad_nd(
        x,
        [
            edge
            for side, count in zip(windows[::-1], counts[::-1], strict=True)
            for edge in (
                side.padding,
                (count - 1) * side.step + side.length - side.size - side.padding,
            )
        ],
        _LOWEST,
    )
    rows, columns = (
        torch.arange(count, device=x.device, dtype=torch.int32) * side.step - side.padding
        for side, count in zip(windows, counts, strict=True)
    )
    bits = (horizontal.length - 1).bit_length()
    dtype = torch.int8 if vertical.length << bits <= 128 else torch.int16
    first = (-rows).clamp(min=0)[:, None] * 2**bits + (-columns).clamp(min=0)  # that is no padding
    best, place = torch.full((), _LOWEST, dtype=x.dtype, device=x.device), first.to(dtype)
    for i, j in product(range(vertical.length), range(horizontal.length)):
        part = padded
        for dim, begin, side, count in zip((-2, -1), (i, j), windows, counts, strict=True):
            end = begin + (count - 1) * side.step + 1
            part = aten.slice(part, dim, begin, end, side.step)
        is_greater = (part > best) | (part != part)
        best = torch.where(is_greater, part, best)
        place = torch.where(is_greater, i * 2**bits + j, place)
    row = rows[:, None] + (place >> bits).to(torch.int32)
    column = columns + (place & ((1 << bits) - 1)).to(torch.int32)
    return best, (row * horizontal.size + column).to(torch.int64)


@register_decomposition(aten.max_pool2d_with_indices_backward.default)
def max_pool2d_backward(
    grad: Tensor, x: Tensor, window: Any, step: Any, padding: Any, dilation: Any, *rest: Any
) -> Any:
    """Give each element the gradients of the windows whose maximum it is."""
    if not _is_left_to_library(x, dilation):
        return at_maxima(grad, _along_both(x.shape, window, step, padding), rest[-1])
    if not x.is_contiguous():  # its order in memory is read, too
        return NotImplemented
    # Of the pooled tensor only the shape is read, which one number has as well as all.
    shape = torch.zeros((), dtype=x.dtype, device=x.device).expand(x.shape)
    return aten.max_pool2d_with_indices_backward.default(
        grad, shape, window, step, padding, dilation, *rest
    )


def at_maxima(grad: Tensor, windows: list[_Windows], indices: Tensor) -> Tensor:
    """Decompose the operator as `max_pool2d_backward` does."""
    rows, columns = (
        torch.arange(side.size, device=grad.device, dtype=torch.int32) for side in windows
    )
    own, indices = rows[:, None] * windows[1].size + columns, indices.to(torch.int32)
    total = None
    for before in product(*(range(-(-side.length // side.step)) for side in windows)):
        is_own = _of_windows_over(indices, before, windows, -1) == own
        part = torch.where(is_own, widen(_of_windows_over(grad, before, windows, 0)), 0)
        total = part if total is None else total + part
    assert total is not None
    return total.to(grad.dtype)


def _of_windows_over(
    x: Tensor, before: Sequence[int], windows: list[_Windows], outside: float
) -> Tensor:
    """Return for each element the value in `x` of the last window that begins at or before it.

    `before` counts windows back from that one; `outside` is the value where no such window exists.
    """
    vertical, horizontal = windows
    rows, columns = x.shape[-2:]
    repeated = x[..., None, :, None].expand(
        *x.shape[:-2], rows, vertical.step, columns, horizontal.step
    )
    repeated = repeated.reshape(*x.shape[:-2], rows * vertical.step, columns * horizontal.step)
    edges: list[Any] = []
    for dim, number, side in zip((-1, -2), before[::-1], windows[::-1], strict=True):
        start = number * side.step - side.padding
        edges += [start, side.size - start - repeated.shape[dim]]
    return aten.constant_pad_nd(repeated, edges, outside)  # type: ignore[no-any-return]
