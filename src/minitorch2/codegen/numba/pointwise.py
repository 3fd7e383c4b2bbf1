"""Kernels without reductions: the last loop inside, all others flattened."""

from __future__ import annotations

from collections.abc import Sequence

import sympy

from minitorch2.codegen.common import Block, TextValue
from minitorch2.codegen.numba import operators
from minitorch2.codegen.numba.kernel_printer import KernelPrinter
from minitorch2.loopir.expressions import Expr, floor_div, product
from minitorch2.loopir.ops import compute_dtype

POINTWISE_BLOCK = 4096
FEW_ITERATIONS = 64
FAR = 16
"""An access of this stride touches another cache line with each element."""
TILE = (32, 64)
"""A transposed access is done in tiles of so many elements across and along the inner loop."""


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

    def _enter_tile(self, *, swapped: bool = False) -> list[Block]:
        """The loops over the elements of a tile."""
        loops = [
            (str(self.kept[loop]), f"tile{number}", TILE[number], self.node.ranges[loop])
            for number, loop in enumerate(self.tiled)
        ]
        return [
            self.enter(f"for {symbol} in range({self._limits(tile, length, size)}):", symbol)
            for symbol, tile, length, size in (reversed(loops) if swapped else loops)
        ]

    def _limits(self, tile: str, length: int, size: Expr) -> str:
        start = f"{tile} * {length}"
        end = f"{start} + {length}"
        is_whole = isinstance(size, int) and size % length == 0
        return f"{start}, {end if is_whole else f'min({end}, {self.text(size)})'}"

    def _stage(self, name: str, index: Expr) -> TextValue | None:
        """A transposed load: the tile is first copied to the stack, along contiguous memory.

        Each cache line is read once, though the rows of a tile may be a power of two apart and so
        push each other out of the cache.
        """
        handler, inner = self.handler, self.handler.block
        across, last = (self.kept[loop] for loop in self.tiled)
        is_transposed = (
            isinstance(index, sympy.Expr)
            and index.diff(across) == 1
            and _is_far(index.diff(last), self.kept)
        )
        if not is_transposed or not inner.is_loop or name in handler.arguments.written:
            return None
        dtype = compute_dtype(handler.arguments.dtypes[name])
        rows, columns = TILE
        stage = self.local_array("stage", rows * columns, dtype)
        place = f"{stage}[{rows} * ({last} - tile1 * {columns}) + {across} - tile0 * {rows}]"
        handler.block, depths = inner.at_depth(inner.depth - 2), dict(handler.depths)
        loops = self._enter_tile(swapped=True)
        handler.stage = lambda name, index: None
        value = handler.load(name, index)
        handler.stage = self._stage
        handler.block.lines.append(f"{place} = {operators.store(dtype, value.text)}")
        for block in reversed(loops):
            self.leave(block)
        handler.block, handler.depths = inner, depths
        return handler.assign(operators.load(dtype, place), dtype, inner.depth)

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
