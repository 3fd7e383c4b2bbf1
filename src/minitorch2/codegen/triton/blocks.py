"""Block sizes and warps of a kernel, from sizes alone: no measurement, the same every time.

A block is a power of two. A thread of a GPU moves 16 bytes at once, and a warp has 32 threads. So 4
warps move 512 float32 numbers at once, and a block of 1024 keeps two such loads in flight. The
numbers were mostly the best, or within 3% of it, of 8 to 60 choices per kernel on an H200 or H100
(`python -m benchmarks.gpu_bandwidth --sweep`).
"""

from __future__ import annotations

from dataclasses import dataclass

from minitorch2.loopir.expressions import Expr

PERSISTENT_LIMIT = 16384
"""Rows of up to so many elements stay in registers from the first read to the last store."""
PERSISTENT_LIMIT_STRIDED = 64
"""The same where neighbours in a row are not neighbours in memory: blocks need many columns."""
PERSISTENT_LIMIT_SQUARE = 1024
"""The same where some accesses walk along rows and others along columns."""
BYTES_OF_A_LOAD = 16
"""What a thread moves at once."""
BYTES_OF_A_THREAD = 4 * BYTES_OF_A_LOAD
"""How much of a persistent block one thread holds: four loads in flight."""
MOST_WARPS = 16
SECTOR = 32
"""Bytes of memory that come and go together."""
PROGRAMS = 256
"""About how many programs keep all processors of a large GPU busy."""
UNKNOWN = 1 << 20
"""What a symbolic size counts as when a block is chosen."""


@dataclass(frozen=True)
class Blocks:
    """The sizes of a kernel's block along kept elements (`x`, `y` in tiles) and reduced ones (`r`).

    A dimension that the kernel does not have is None. In a loop, `fold` parts of a block are
    combined before an accumulator sees them. If the parts of an element are in one thread, that
    takes nothing but registers for the loads in flight.
    """

    x: int
    warps: int
    y: int | None = None
    r: int | None = None
    persistent: bool = False
    fold: int = 1

    def parameters(self) -> dict[str, int]:
        """Return the block sizes by the names that the kernel gives them."""
        sizes = {"XBLOCK": self.x, "YBLOCK": self.y, "RBLOCK": self.r}
        return {name: size for name, size in sizes.items() if size is not None}


def next_power_of_two(n: int) -> int:
    """Return the least power of two that is not less than `n`, at least 1."""
    return 1 << max(0, n - 1).bit_length()


def _known(numel: Expr) -> int:
    return numel if isinstance(numel, int) else UNKNOWN


def _warps(elements: int, per_thread: int) -> int:
    return min(MOST_WARPS, max(1, elements // (32 * per_thread)))


def pointwise_blocks(numel: Expr) -> Blocks:
    """Return a block of a kernel without reductions."""
    x = min(next_power_of_two(_known(numel)), 1024)
    return Blocks(x, _warps(x, 8))


def tile_blocks(rows: int, columns: int) -> Blocks:
    """Return a block of a kernel that reads along rows and along columns."""
    x, y = min(next_power_of_two(rows), 64), min(next_power_of_two(columns), 64)
    return Blocks(x, _warps(x * y, 16), y=y)


def reduction_blocks(
    numel: Expr, rnumel: Expr, unit_steps: tuple[int, int], passes: int, itemsize: int
) -> Blocks:
    """Return a block of a kernel with reductions of `rnumel` elements each.

    Args:
        unit_steps: how many accesses walk memory step by step along the elements that are kept,
            and how many along those that are reduced.
        passes: how often the kernel visits the reduced elements.
        itemsize: bytes of the widest element that is read or written for each of them.
    """
    n, r = _known(numel), next_power_of_two(_known(rnumel))
    kept, reduced = unit_steps
    if kept and reduced:
        return _square_blocks(n, r, is_row=kept <= reduced)
    limit = PERSISTENT_LIMIT_STRIDED if kept else PERSISTENT_LIMIT
    if isinstance(rnumel, int) and rnumel <= limit:
        per_thread = BYTES_OF_A_THREAD // itemsize
        wanted = 4096 if kept else 64 * per_thread
        x = min(next_power_of_two(n), max(1, wanted // r))
        return Blocks(x, _warps(x * r, per_thread), r=r, persistent=True)
    if not kept:
        return _row_blocks(rnumel, passes, itemsize)
    if n >= 64 * PROGRAMS:
        return looped_blocks(64, 4, min(r, 64), itemsize)
    x = min(32, max(8, next_power_of_two(n // PROGRAMS)))  # 8 elements are a sector of memory
    if isinstance(rnumel, int) and x * r <= PERSISTENT_LIMIT:  # one wait for memory
        return Blocks(x, _warps(x * r, 16), r=r, persistent=True)
    return looped_blocks(min(x, next_power_of_two(n)), MOST_WARPS, min(r, 1024 // x), itemsize)


def _row_blocks(rnumel: Expr, passes: int, itemsize: int) -> Blocks:
    """Choose blocks along rows: 32 KiB pieces of rows that are read once, longer ones of others.

    Longer pieces keep few rows in the cache between passes. They are halved if a quarter of all
    threads had nothing to do.
    """
    r = min(next_power_of_two(_known(rnumel)), 8192 if passes == 1 else 16384)
    if passes == 1:
        r = min(r, 2048 * itemsize)
        return looped_blocks(1, min(MOST_WARPS, max(1, r // 512)), r, itemsize)
    if isinstance(rnumel, int) and -rnumel % r > (rnumel + -rnumel % r) // 4:
        r //= 2
    return looped_blocks(1, 2 * MOST_WARPS, r, itemsize)


def looped_blocks(x: int, warps: int, r: int, itemsize: int) -> Blocks:
    """Return a block of a loop, whose accumulators are as wide as one load of all threads."""
    at_once = warps * 32 * BYTES_OF_A_LOAD // itemsize
    return Blocks(x, warps, r=r, fold=min(r, max(1, x * r // at_once)))


def _square_blocks(n: int, r: int, is_row: bool) -> Blocks:
    """Choose blocks for accesses along rows and along columns: a side has at least a sector."""
    if r <= (PERSISTENT_LIMIT_SQUARE if is_row else PERSISTENT_LIMIT_STRIDED):
        x = min(next_power_of_two(n), max(16, 4096 // r))
        return Blocks(x, _warps(x * r, 16), r=r, persistent=True)
    return Blocks(min(64, next_power_of_two(n)), MOST_WARPS // 2, r=64)
