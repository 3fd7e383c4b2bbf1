"""Kernels without reductions: the last loop inside, all others flattened."""

from __future__ import annotations

from collections.abc import Sequence

from minitorch2.codegen.numba.kernel_printer import KernelPrinter
from minitorch2.loopir.expressions import Expr, floor_div, product

POINTWISE_BLOCK = 4096
FEW_ITERATIONS = 64
# A transposed access is read in tiles of so many elements each way: a cache line of float32.
TILE = 16


class PointwisePrinter(KernelPrinter):
    """No reductions: the last loop inside, all others flattened."""

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
                    and (not isinstance(far, int) or far >= TILE)
                ):
                    return access.strides.index(1)
        return None

    def _write_tiles(self, across: int) -> Expr:
        """Square tiles over loop `across` and the inner loop; the other loops are flattened."""
        ranges = self.node.ranges
        others = [i for i in range(len(ranges) - 1) if i != across]
        counts = [floor_div(ranges[i] + TILE - 1, TILE) for i in (across, -1)]
        names = [*(str(self.kept[i]) for i in others), "tile0", "tile1"]
        sizes = [*(ranges[i] for i in others), *counts]
        opened = [self.enter_shared(names, sizes)]
        for tile, i in (("tile0", across), ("tile1", len(ranges) - 1)):
            symbol = str(self.kept[i])
            start, limit = f"{tile} * {TILE}", self.text(ranges[i])
            opened.append(
                self.enter(
                    f"for {symbol} in range({start}, min({start} + {TILE}, {limit})):", symbol
                )
            )
        self._run_all()
        for block in reversed(opened):
            self.leave(block)
        return product(sizes)

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
            return (TILE, TILE)
        return (POINTWISE_BLOCK,) if self._is_blocked() else self.node.ranges[-1:]

    def _is_single(self) -> bool:
        return len(self.node.ranges) < 2
