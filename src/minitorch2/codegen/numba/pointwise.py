"""Kernels without reductions: the last loop inside, all others flattened."""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch

from minitorch2.codegen.common import Block, TextValue
from minitorch2.codegen.numba.cuts import cut
from minitorch2.codegen.numba.kernel_printer import KernelPrinter
from minitorch2.loopir.expressions import Expr, floor_div, index_symbol, product
from minitorch2.loopir.iteration import Access

POINTWISE_BLOCK = 4096
FEW_ITERATIONS = 64
SHORT_ROW = 8
FAR = 16
"""An access of this stride touches another cache line with each element."""
CACHE_LINE = 64
"""Bytes. A transposed access is done in square tiles of a cache line a row: each line is used up
when it is there, since rows that are a power of two apart push each other out of the cache."""
_TILES = ("tile0", "tile1")


class PointwisePrinter(KernelPrinter):
    """No reductions: the last loop inside, all others flattened."""

    tiled: tuple[int, int]
    side: int

    def write_loops(self) -> Expr:
        ranges = self.node.ranges
        outer, inner = product(ranges[:-1]), ranges[-1] if ranges else 1
        if len(ranges) < 2:
            if ranges:
                self._write_inner("lo", "hi")
            else:
                self._write_loop("for i in range(lo, hi):")
            return inner
        if self._has_short_rows():
            return self._write_short_rows()
        access = self._transposed_access()
        if access is not None:
            return self._write_tiles(access)
        if self._is_blocked():
            blocks = floor_div(inner + POINTWISE_BLOCK - 1, POINTWISE_BLOCK)
            loop = self.enter_flattened(len(ranges) - 1, blocks, "block")
            start = f"block * {POINTWISE_BLOCK}"
            self._write_inner(start, f"min({start} + {POINTWISE_BLOCK}, {self.text(inner)})")
        else:
            blocks = 1
            loop = self.enter_flattened(len(ranges) - 1)
            self._write_inner("", self.text(inner))
        self.leave(loop)
        return product((outer, blocks))

    def _has_short_rows(self) -> bool:
        """Return whether the last loop is so short that it is written out, in another loop."""
        *outer, middle, row = self.node.ranges
        return bool(outer) and isinstance(row, int) and row <= SHORT_ROW and middle != 1

    def _write_short_rows(self) -> Expr:
        """Write the last two loops: the loop around the short one is vectorized."""
        *outer, middle, row = self.node.ranges
        blocks = floor_div(middle + POINTWISE_BLOCK - 1, POINTWISE_BLOCK)
        loop = self.enter_flattened(len(outer), blocks, "block")
        start = f"block * {POINTWISE_BLOCK}"
        limits = f"{start}, min({start} + {POINTWISE_BLOCK}, {self.text(middle)})"
        symbol = str(self.kept[-2])
        rows = self.enter(f"for {symbol} in range({limits}):", symbol)
        self._write_inner("", self.text(row))
        self.leave(rows)
        self.leave(loop)
        return product((*outer, blocks))

    def _write_inner(self, start: str, stop: str) -> None:
        """Write the last loop from `start` ("" is 0) to `stop`, cut where its conditions change."""
        symbol, ranges = self.kept[-1], self.handler.ranges
        for first, length in cut(self.bodies, self.kept, ranges):
            limits = _within(start, stop, first, length) if start else str(length)
            self.kept = (*self.kept[:-1], symbol + first)
            self.handler.ranges = tuple((s, length if s == symbol else n) for s, n in ranges)
            self._write_loop(f"for {symbol} in range({limits}):", str(symbol))
        if self.handler.ranges is ranges:
            limits = f"{start}, {stop}" if start else stop
            self._write_loop(f"for {symbol} in range({limits}):", str(symbol))
        self.kept, self.handler.ranges = (*self.kept[:-1], symbol), ranges

    def _write_loop(self, header: str, *variables: str) -> None:
        block = self.enter(header, *variables)
        self._run_all()
        self.leave(block)

    def _transposed_access(self) -> Access | None:
        """Return an access that is contiguous along an outer loop while the inner loop strides."""
        for body in self.bodies:
            for access in (*body.reads_of, *body.writes_of):
                far = access.strides[-1]
                if (
                    access.name
                    and 1 in access.strides[:-1]
                    and far is not None
                    and (not isinstance(far, int) or far >= FAR)
                ):
                    return access
        return None

    def _side(self, access: Access) -> int:
        """Return the number of elements of a tile along each of its loops."""
        return CACHE_LINE // self.arguments.dtypes[access.name].itemsize

    def _write_tiles(self, access: Access) -> Expr:
        """Write tiles over two loops, one after the other along the access; flatten other loops."""
        ranges = self.node.ranges
        across, self.side = access.strides.index(1), self._side(access)
        others = [i for i in range(len(ranges) - 1) if i != across]
        self.tiled = (across, len(ranges) - 1)
        counts = [floor_div(ranges[i] + self.side - 1, self.side) for i in self.tiled]
        names = [*(str(self.kept[i]) for i in others), *reversed(_TILES)]
        sizes = [*(ranges[i] for i in others), *reversed(counts)]
        opened = [self.enter_shared(names, sizes), *self._enter_tile()]
        self.handler.stage = self._stage
        self._run_all()
        for block in reversed(opened):
            self.leave(block)
        return product(sizes)

    def _enter_tile(self) -> list[Block]:
        """Open the loops over the elements of a tile."""
        return [
            self.enter(f"for {symbol} in range({start}, {start} + {extent}):", str(symbol))
            for symbol, start, extent in zip(self._tile_symbols(), self._starts(), self._extents())
        ]

    def _tile_symbols(self) -> list[sympy.Symbol]:
        return [self.kept[loop] for loop in self.tiled]

    def _starts(self) -> list[str]:
        return [f"{tile} * {self.side}" for tile in _TILES]

    def _extents(self) -> list[str]:
        """Return the number of elements of a tile along each loop, which is less at the edges."""
        sizes = [self.node.ranges[loop] for loop in self.tiled]
        return [
            str(self.side)
            if isinstance(size, int) and size % self.side == 0
            else f"min({self.side}, {self.text(size)} - {start})"
            for size, start in zip(sizes, self._starts())
        ]

    def _stage(self, name: str, index: Expr) -> TextValue | None:
        """Copy the tile of a transposed load to the stack, where it is turned.

        Each cache line is read once, though the rows of a tile may be a power of two apart and so
        push each other out of the cache.
        """
        handler, inner = self.handler, self.handler.block
        across, last = self._tile_symbols()
        if not isinstance(index, sympy.Expr) or index.diff(across) != 1:
            return None
        stride = index.diff(last)
        if not _is_far(stride, self.kept):
            return None
        if not inner.is_loop or name in handler.arguments.written:
            return None
        dtype = handler.arguments.dtypes[name]
        stage = self._staged(name, index, stride, dtype)
        row, column = (f"{s} - {start}" for s, start in zip((across, last), self._starts()))
        place = f"{stage}[{self.side} * ({row}) + {column}]"
        return handler.read(dtype, place, inner.depth)

    def _staged(self, name: str, index: sympy.Expr, stride: Expr, dtype: torch.dtype) -> str:
        """Return the array that holds a tile of a buffer, its columns in a row each."""
        handler = self.handler
        corner = index.xreplace(
            {s: index_symbol(tile) * self.side for s, tile in zip(self._tile_symbols(), _TILES)}
        )
        source = [handler.arguments.pointer(name), *(handler.index(e)[0] for e in (corner, stride))]
        outside = handler.block.at_depth(handler.block.depth - 2)
        key = " ".join(source)
        if key not in outside.names:
            stage = self.local_array("stage", self.side**2, dtype)
            outside.names[key] = TextValue(stage, dtype, outside.depth)
            arguments = [stage, str(self.side), *source, *self._extents()]
            outside.lines.append(f"copy_transposed({', '.join(arguments)})")
        return outside.names[key].text

    def _is_blocked(self) -> bool:
        """Return whether few long inner loops are cut, so that every thread has work."""
        outer, inner = product(self.node.ranges[:-1]), self.node.ranges[-1]
        is_few = isinstance(outer, int) and outer < FEW_ITERATIONS
        return is_few and (not isinstance(inner, int) or inner > 2 * POINTWISE_BLOCK)

    def _run_all(self) -> None:
        for body in self.bodies:
            self.run(body)

    def inner_sizes(self) -> Sequence[Expr]:
        if self._is_single():
            return ()
        if self._has_short_rows():
            middle, row = self.node.ranges[-2:]
            return (min(middle, POINTWISE_BLOCK) if isinstance(middle, int) else middle, row)
        access = self._transposed_access()
        if access is not None:
            return [self._side(access)] * 2
        return (POINTWISE_BLOCK,) if self._is_blocked() else self.node.ranges[-1:]

    def _is_single(self) -> bool:
        return len(self.node.ranges) < 2


def _within(start: str, stop: str, first: int, length: int) -> str:
    """Return the part of start..stop in `length` iterations from `first` on, less `first`."""
    if first == 0:
        return f"{start}, min({stop}, {length})"
    return f"max({start} - {first}, 0), min({stop} - {first}, {length})"


def _is_far(stride: sympy.Expr, loops: Sequence[sympy.Symbol]) -> bool:
    """Return whether neighbours lie in different cache lines, as for most varying strides."""
    if stride.is_number:
        return bool(abs(stride) >= FAR)
    return not stride.has(sympy.Derivative, sympy.Subs, *loops)
