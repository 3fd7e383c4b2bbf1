"""Layouts: the places of a tensor's elements in its memory.

    layout ::= FixedLayout(device, dtype, size, stride, offset)      the strides are decided
             | FlexibleLayout(device, dtype, size, preferred_stride) they may still be chosen

A computed buffer starts flexible: the first user that needs its strides (a library call, a graph
output, the scheduler) fixes them. Sizes, strides and offsets count elements, and may be symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import sympy
import torch

from minitorch2.graph.symbols.polynomials import multiply_out
from minitorch2.loopir.expressions import Expr, equal, to_expr

Size = tuple[Expr, ...]
ROW_BYTES = 16
"""Fast products of matrices on GPUs want rows that begin at multiples of it."""


def contiguous_strides(size: Sequence[Expr]) -> Size:
    """Return row-major strides: the last dimension is dense. A dimension of size 0 counts as 1."""
    strides: list[Expr] = []
    step: Expr = 1
    for extent in reversed(size):
        strides.append(step)
        step = to_expr(step * (1 if extent == 0 else extent))
    return tuple(reversed(strides))


def aligned_strides(size: Size, itemsize: int) -> Size | None:
    """Return row-major strides whose rows begin at multiples of 16 bytes; None if all do."""
    columns = size[-1] if len(size) > 1 else 0
    if not isinstance(columns, int) or columns * itemsize % ROW_BYTES == 0:
        return None
    return contiguous_strides((*size[:-1], columns + -columns % (ROW_BYTES // itemsize)))


def is_dense(size: Size, stride: Size) -> bool:
    """Return whether the strides are a permutation of row-major ones: no gaps, no overlaps."""
    pairs = [(s, n) for n, s in zip(size, stride, strict=True) if n != 1]
    expected: Expr = 1
    while pairs:
        match = next((p for p in pairs if equal(p[0], expected)), None)
        if match is None:
            return False
        pairs.remove(match)
        expected = to_expr(expected * match[1])
    return True


@dataclass(frozen=True)
class FixedLayout:
    """A layout whose strides and offset are decided."""

    device: torch.device
    dtype: torch.dtype
    size: Size
    stride: Size
    offset: Expr = 0

    def index(self, index: Sequence[Expr]) -> Expr:
        """Return the memory position of the element at `index`."""
        return _linear_index(self.stride, self.offset, self.size, tuple(index))

    def storage_size(self) -> Expr:
        """Return the elements of memory that the layout spans from position 0 (0 if empty)."""
        if any(extent == 0 for extent in self.size):
            return 0
        last = sum((n - 1) * s for n, s in zip(self.size, self.stride, strict=True))
        return to_expr(multiply_out(self.offset + last + 1))

    def is_contiguous(self) -> bool:
        """Return whether the elements lie in row-major order without gaps, from position 0."""
        return self.offset == 0 and same_strides(
            self.size, self.stride, contiguous_strides(self.size)
        )


@dataclass(frozen=True)
class FlexibleLayout:
    """A layout whose strides are open; `preferred_stride` is the choice of eager PyTorch."""

    device: torch.device
    dtype: torch.dtype
    size: Size
    preferred_stride: Size | None = None

    def fix(self, stride: Size | None = None) -> FixedLayout:
        """Fix the strides: the given ones, or the preferred ones if dense, or row-major ones."""
        if stride is None and self.preferred_stride and is_dense(self.size, self.preferred_stride):
            stride = self.preferred_stride
        return FixedLayout(
            self.device, self.dtype, self.size, stride or contiguous_strides(self.size)
        )


Layout = FixedLayout | FlexibleLayout


def same_strides(size: Size, a: Size, b: Size) -> bool:
    """Return whether two strides address the same elements: dimensions of size 1 do not matter."""
    if any(extent == 0 for extent in size):
        return True
    return all(n == 1 or equal(s, t) for n, s, t in zip(size, a, b, strict=True))


@lru_cache(65536)
def _linear_index(stride: Size, offset: Expr, size: Size, index: tuple[Expr, ...]) -> Expr:
    result: Expr = offset
    for extent, step, position in zip(size, stride, index, strict=True):
        if extent != 1:
            result = result + position * step
    return to_expr(multiply_out(result)) if isinstance(result, sympy.Expr) else result
