"""Kernels without reductions: the last loop inside, all others flattened."""

from __future__ import annotations

import math
from collections.abc import Sequence

import sympy
import torch

from minitorch2.codegen.common import Block, TextValue
from minitorch2.codegen.numba import operators
from minitorch2.codegen.numba.kernel_printer import KernelPrinter
from minitorch2.loopir.expressions import Expr, floor_div, index_symbol, product
from minitorch2.loopir.ops import compute_dtype

POINTWISE_BLOCK = 4096
FEW_ITERATIONS = 64
FAR = 16
"""An access of this stride touches another cache line with each element."""
TILE = (64, 16)
"""A transposed access is done in tiles of so many elements across and along the inner loop: few
rows of memory at a time, since rows that are a power of two apart share a set of the cache."""
_STARTS = tuple(f"tile{number} * {length}" for number, length in enumerate(TILE))


class PointwisePrinter(KernelPrinter):
    """No reductions: the last loop inside, all others flattened."""

    tiled: tuple[int, int]

    def write_loops(self) -> Expr:
        ranges = self.node.ranges
        outer, inner = product(ranges[:-1]), ranges[-1] if ranges else 1
        if len(ranges) < 2:
            block = (
                self.enter_flattened(len(ranges))
                if ranges
                else self.enter("for i in range(lo, hi):")
            )
            self._run_all()
            self.leave(block)
            return inner
        symbol = str(self.kept[-1])
        across = self._transposed_loop()
        if across is not None:
            return self._write_tiles(across)
        if self._is_blocked():
            blocks = floor_div(inner + POINTWISE_BLOCK - 1, POINTWISE_BLOCK)
            loop = self.enter_flattened(len(ranges) - 1, blocks, "block")
            start = f"block * {POINTWISE_BLOCK}"
            limits = f"{start}, min({start} + {POINTWISE_BLOCK}, {self.text(inner)})"
        else:
            blocks = 1
            loop = self.enter_flattened(len(ranges) - 1)
            limits = self.text(inner)
        inside = self.enter(f"for {symbol} in range({limits}):", symbol)
        self._run_all()
        self.leave(inside)
        self.leave(loop)
        return product((outer, blocks))

    def _transposed_loop(self) -> int | None:
        """An outer loop along which some access is contiguous while the inner loop strides."""
        for body in self.bodies:
            for access in (*body.reads_of, *body.writes_of):
                far = access.strides[-1]
                if (
                    1 in access.strides[:-1]
                    and far is not None
                    and (not isinstance(far, int) or far >= FAR)
                ):
                    return access.strides.index(1)
        return None

    def _write_tiles(self, across: int) -> Expr:
        """Tiles over loop `across` and the inner loop; the other loops are flattened."""
        ranges = self.node.ranges
        others = [i for i in range(len(ranges) - 1) if i != across]
        counts = [floor_div(ranges[i] + n - 1, n) for i, n in zip((across, -1), TILE)]
        names = [*(str(self.kept[i]) for i in others), "tile0", "tile1"]
        sizes = [*(ranges[i] for i in others), *counts]
        self.tiled = (across, len(ranges) - 1)
        opened = [self.enter_shared(names, sizes), *self._enter_tile()]
        self.handler.stage = self._stage
        self._run_all()
        for block in reversed(opened):
            self.leave(block)
        return product(sizes)

    def _enter_tile(self) -> list[Block]:
        """The loops over the elements of a tile."""
        return [
            self.enter(f"for {symbol} in range({start}, {start} + {extent}):", str(symbol))
            for symbol, start, extent in zip(self._tile_symbols(), _STARTS, self._extents())
        ]

    def _tile_symbols(self) -> list[sympy.Symbol]:
        return [self.kept[loop] for loop in self.tiled]

    def _extents(self) -> list[str]:
        """How many elements a tile has along each of its loops: fewer at the edges."""
        sizes = [self.node.ranges[loop] for loop in self.tiled]
        return [
            str(most)
            if isinstance(size, int) and size % most == 0
            else f"min({most}, {self.text(size)} - {start})"
            for most, size, start in zip(TILE, sizes, _STARTS)
        ]

    def _stage(self, name: str, index: Expr) -> TextValue | None:
        """A transposed load: the tile is first copied to the stack, and turned on the way.

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
        place = f"{stage}[{TILE[1]} * ({across} - {_STARTS[0]}) + {last} - {_STARTS[1]}]"
        return handler.assign(operators.load(dtype, place), compute_dtype(dtype), inner.depth)

    def _staged(self, name: str, index: sympy.Expr, stride: Expr, dtype: torch.dtype) -> str:
        """The array that holds a tile of a buffer, its columns in a row each."""
        handler = self.handler
        corner = index.xreplace(
            {s: index_symbol(f"tile{i}") * TILE[i] for i, s in enumerate(self._tile_symbols())}
        )
        source = [handler.arguments.pointer(name), *(handler.index(e)[0] for e in (corner, stride))]
        outside = handler.block.at_depth(handler.block.depth - 2)
        key = " ".join(source)
        if key not in outside.names:
            stage = self.local_array("stage", math.prod(TILE), dtype)
            outside.names[key] = TextValue(stage, dtype, outside.depth)
            arguments = [stage, str(TILE[1]), *source, *self._extents()]
            outside.lines.append(f"copy_transposed({', '.join(arguments)})")
        return outside.names[key].text

    def _is_blocked(self) -> bool:
        """Few long inner loops are cut, so that there is work for every thread."""
        outer, inner = product(self.node.ranges[:-1]), self.node.ranges[-1]
        is_few = isinstance(outer, int) and outer < FEW_ITERATIONS
        return is_few and (not isinstance(inner, int) or inner > 2 * POINTWISE_BLOCK)

    def _run_all(self) -> None:
        for body in self.bodies:
            self.run(body)

    def inner_sizes(self) -> Sequence[Expr]:
        if self._is_single():
            return ()
        if self._transposed_loop() is not None:
            return TILE
        return (POINTWISE_BLOCK,) if self._is_blocked() else self.node.ranges[-1:]

    def _is_single(self) -> bool:
        return len(self.node.ranges) < 2


def _is_far(stride: sympy.Expr, loops: Sequence[sympy.Symbol]) -> bool:
    """Whether neighbours lie in different cache lines; at a stride that varies, most do."""
    if stride.is_number:
        return bool(abs(stride) >= FAR)
    return not stride.has(sympy.Derivative, sympy.Subs, *loops)
