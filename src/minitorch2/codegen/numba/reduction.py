"""Kernels with reductions: passes over the reduction loops, and the bodies between them.

A float32 sum that is long, or of unknown length, is made of *pieces*. So it is as fast as a short
sum and as exact as one in float64:

    acc0 = float64(0.0)
    for piece in range((size0 + 16383) // 16384):
        part0 = float32(0.0)
        for r0 in range(piece * 16384, min(piece * 16384 + 16384, size0)):
            part0 = add_any_order(part0, in_ptr0[r0])
        acc0 = acc0 + float64(part0)
"""

from __future__ import annotations

from typing import ClassVar

import sympy
import torch

from minitorch2.codegen.common import Block, TextValue, print_expr
from minitorch2.codegen.numba import operators
from minitorch2.codegen.numba.kernel_printer import KernelPrinter
from minitorch2.loopir.expressions import Expr, product
from minitorch2.loopir.loops import Reduction
from minitorch2.loopir.memory_plan import outlives_pass
from minitorch2.loopir.ops import compute_dtype
from minitorch2.loopir.schedule import SchedulerNode

TURNS = 8
"""So many turns of a scan are written out: each is but an addition and a store."""


class ReductionPrinter(KernelPrinter):
    """Passes over the reduction loops, and the bodies between them."""

    longest_sum: ClassVar[int]
    """So many float32 are added up in float32."""
    piece: Block | None = None
    """The loop over pieces around the current pass, if there is one."""

    def write_passes(self) -> None:
        """All passes inside the current iteration."""
        for body in self.needs_scratch():
            dtype = compute_dtype(body.buffer.dtype)
            self.scratch[body.name] = self.local_array("row", self.scratch_length(), dtype)
        self.write_outputs(-1)
        for level in range(max(self.levels.values()) + 1):
            self.write_pass(
                [b for b in self.bodies if b.covers_reduction and self.levels[b.name] == level]
            )
            self.write_outputs(level)

    def needs_scratch(self) -> list[SchedulerNode]:
        """Return the bodies whose buffers are removed although they are read behind their pass."""
        return [
            body
            for body in self.bodies
            if body.covers_reduction
            and not body.is_reduction
            and body.name in self.schedule.removed
            and outlives_pass(body, self.node)
        ]

    def scratch_length(self) -> Expr:
        """Return the elements of one iteration."""
        return product(self.node.reduction_ranges)

    def write_pass(self, members: list[SchedulerNode]) -> None:
        """Write one run over the reduction loops."""
        if not members:
            return
        loops = self.enter_reduction(in_pieces=any(map(self._is_long_sum, members)))
        self.piece_ends: list[str] = []
        for body in members:
            self.run(body)
        for loop in reversed(loops):
            self.leave(loop)
            if loop.parent is self.piece:
                self.handler.block.lines += self.piece_ends
        self.piece = None
        for body in members:
            if not body.is_reduction:
                self._after_pass(body)

    def _after_pass(self, body: SchedulerNode) -> None:
        """Later passes find the value on the stack or in memory."""
        del self.handler.at_hand[body.name]
        if body.name in self.scratch:
            dtype = compute_dtype(body.buffer.dtype)
            self.handler.at_hand[body.name] = lambda: self.handler.assign(
                operators.load(dtype, f"{self.scratch[body.name]}[{self._position()}]"),
                dtype,
                self.handler.block.depth,
            )

    def _is_long_sum(self, body: SchedulerNode) -> bool:
        loops = body.buffer.loops
        if not isinstance(loops, Reduction):
            return False
        dtype = compute_dtype(loops.src_dtype)
        return self.accumulator_dtype(loops.kind, dtype) != dtype and not self.node_scans()

    def accumulator_dtype(self, kind: str, dtype: torch.dtype) -> torch.dtype:
        """float64 for long sums of float32, else the values' own dtype.

        It is float64 where every partial result is stored, too, as in eager PyTorch.
        """
        length = product(self.node.reduction_ranges)
        is_long = not isinstance(length, int) or length > self.longest_sum or self.node_scans()
        is_sum = kind in ("sum", "prod") and dtype == torch.float32
        return torch.float64 if is_sum and is_long else dtype

    def enter_reduction(self, *, in_pieces: bool = False) -> list[Block]:
        """Open the loops of a pass."""
        raise NotImplementedError

    def write_outputs(self, level: int) -> None:
        """Store the results of a pass, and run the bodies that are not in the reduction loops."""
        raise NotImplementedError

    def reduction_loops(self, *, in_pieces: bool) -> list[Block]:
        """Open one loop per reduction range, and maybe one over pieces."""
        sizes = self.node.reduction_ranges
        cut, step = self._pieces() if in_pieces else (None, 0)
        loops = []
        for position, (symbol, size) in enumerate(zip(self.reduced, sizes, strict=True)):
            limits = text = self.text(size)
            if position == cut:
                self.piece = self.enter(f"for piece in range(({text} + {step - 1}) // {step}):")
                loops.append(self.piece)
                limits = f"piece * {step}, min(piece * {step} + {step}, {text})"
            if self.node_scans() and symbol is self.reduced[-1]:
                loops += self._enter_scan(symbol, size)
            else:
                loops.append(self.enter(f"for {symbol} in range({limits}):", str(symbol)))
        return loops

    def _enter_scan(self, symbol: sympy.Symbol, size: Expr) -> list[Block]:
        """Open a loop that is not vectorized, with some iterations written out in a row."""
        if not isinstance(size, int) or size % TURNS or size == TURNS:
            return [self.enter(f"for {symbol} in range({self.text(size)}):", str(symbol))]
        parts = self.enter(f"for part in range({size // TURNS}):")
        turns = self.enter(f"for turn in range({TURNS}):", str(symbol))
        turns.lines.append(f"{symbol} = {TURNS} * part + turn")
        return [parts, turns]

    def _pieces(self) -> tuple[int, int]:
        """Return the loop that is cut, so that pieces are short, and its iterations in a piece."""
        sizes, length = self.node.reduction_ranges, 1
        for position in reversed(range(len(sizes))):
            size = sizes[position]
            if not isinstance(size, int) or length * size > self.longest_sum:
                break
            length *= size
        return position, max(1, self.longest_sum // max(1, length))

    def _position(self) -> str:
        """Return the number of the current element of the row."""
        position: Expr = 0
        for symbol, size in zip(self.reduced, self.node.reduction_ranges):
            position = position * size + symbol
        return print_expr(position)

    def outputs_of(self, level: int) -> list[SchedulerNode]:
        """Return the bodies that run between pass `level` and the next."""
        return [b for b in self.bodies if not b.covers_reduction and self.levels[b.name] == level]

    def store_value(self, name: str, index: Expr, value: TextValue) -> None:
        """Store an output that is complete."""
        if name not in self.schedule.removed:
            text, _ = self.handler.index(index)
            element = operators.store(self.arguments.dtypes[name], value.text)
            self.handler.block.lines.append(f"{self.arguments.pointer(name)}[{text}] = {element}")
