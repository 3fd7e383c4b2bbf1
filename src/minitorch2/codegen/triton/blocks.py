"""Block sizes and warps of a kernel, from sizes alone: no measurement, the same every time.

A block is a power of two. A thread of a GPU moves 16 bytes at once, a warp has 32 threads, so 4
warps move 512 float32 numbers at once, and a block of 1024 keeps two such loads in flight.
"""

from __future__ import annotations

from dataclasses import dataclass

from minitorch2.loopir.expressions import Expr

PERSISTENT_LIMIT = 8192
"""Rows of up to so many elements stay in registers from the first read to the last store."""
PERSISTENT_LIMIT_STRIDED = 64
"""The same where neighbours in a row are not neighbours in memory: blocks need many columns."""
UNKNOWN = 1 << 20
"""What a symbolic size counts as when a block is chosen."""


@dataclass(frozen=True)
class Blocks:
    """The sizes of a kernel's block. `r` is None for a kernel without a reduction."""

    x: int
    r: int | None
    warps: int
    persistent: bool = False


def next_power_of_two(n: int) -> int:
    """The least power of two that is not less than `n`, at least 1."""
    return 1 << max(0, n - 1).bit_length()


def _warps(elements: int, per_thread: int) -> int:
    return min(16, max(1, next_power_of_two(elements) // (32 * per_thread)))


def pointwise_blocks(numel: Expr, itemsize: int) -> Blocks:
    """A block of a kernel without reductions; `itemsize` is that of the widest element."""
    n = numel if isinstance(numel, int) else UNKNOWN
    x = min(next_power_of_two(n), 1024 if itemsize >= 4 else 2048)
    return Blocks(x, None, 4 if x >= 512 else _warps(x, 4))


def reduction_blocks(numel: Expr, rnumel: Expr, rows_are_contiguous: bool) -> Blocks:
    """A block of a kernel with reductions of `rnumel` elements each."""
    limit = PERSISTENT_LIMIT if rows_are_contiguous else PERSISTENT_LIMIT_STRIDED
    n = numel if isinstance(numel, int) else UNKNOWN
    if isinstance(rnumel, int) and rnumel <= limit:
        return _persistent(n, rnumel, rows_are_contiguous)
    if rows_are_contiguous:
        return Blocks(1, 2048, 8)
    return Blocks(min(next_power_of_two(n), 32), 64, 8)


def _persistent(n: int, rnumel: int, rows_are_contiguous: bool) -> Blocks:
    r = next_power_of_two(rnumel)
    wanted = 1024 if rows_are_contiguous else 4096
    x = min(next_power_of_two(n), max(1, wanted // r))
    return Blocks(x, r, _warps(x * r, 8), persistent=True)
