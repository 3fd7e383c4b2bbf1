"""Kernels with reductions: passes over the reduction loops, and the bodies between them."""

from __future__ import annotations

from minitorch2.codegen.common import Block, TextValue, print_expr
from minitorch2.codegen.numba import operators
from minitorch2.codegen.numba.kernel_printer import KernelPrinter
from minitorch2.loopir.expressions import Expr, product
from minitorch2.loopir.ops import compute_dtype
from minitorch2.loopir.schedule import SchedulerNode


class ReductionPrinter(KernelPrinter):
    """Passes over the reduction loops, and the bodies between them."""

    def write_passes(self) -> None:
        """All passes inside the current iteration."""
        self._reserve_scratch()
        self.write_outputs(-1)
        for level in range(max(self.levels.values()) + 1):
            self.write_pass(
                [b for b in self.bodies if b.covers_reduction and self.levels[b.name] == level]
            )
            self.write_outputs(level)

    def needs_scratch(self) -> list[SchedulerNode]:
        """The bodies whose buffers are removed although a later pass needs them."""
        readers = {b.name: [r for r in self.bodies if b.name in r.read_names] for b in self.bodies}
        return [
            body
            for body in self.bodies
            if body.covers_reduction
            and not body.is_reduction
            and body.name in self.schedule.removed
            if any(self.levels[r.name] > self.levels[body.name] for r in readers[body.name])
        ]

    def _reserve_scratch(self) -> None:
        """Stack arrays for those."""
        for body in self.needs_scratch():
            dtype = compute_dtype(body.buffer.dtype)
            self.scratch[body.name] = self.local_array("row", self.scratch_length(), dtype)

    def scratch_length(self) -> Expr:
        """The elements of one iteration."""
        return product(self.node.reduction_ranges)

    def write_pass(self, members: list[SchedulerNode]) -> None:
        """One run over the reduction loops."""
        if not members:
            return
        loops = self.enter_reduction()
        for body in members:
            self.run(body)
        for loop in reversed(loops):
            self.leave(loop)
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

    def enter_reduction(self) -> list[Block]:
        """Open the loops of a pass."""
        raise NotImplementedError

    def write_outputs(self, level: int) -> None:
        """Store the results of a pass, and run the bodies that are not in the reduction loops."""
        raise NotImplementedError

    def reduction_loops(self) -> list[Block]:
        """Open one loop per reduction range."""
        return [
            self.enter(f"for {symbol} in range({self.text(size)}):", str(symbol))
            for symbol, size in zip(self.reduced, self.node.reduction_ranges)
        ]

    def _position(self) -> str:
        """The number of the current element of the row."""
        position: Expr = 0
        for symbol, size in zip(self.reduced, self.node.reduction_ranges):
            position = position * size + symbol
        return print_expr(position)

    def outputs_of(self, level: int) -> list[SchedulerNode]:
        """The bodies that run between pass `level` and the next."""
        return [b for b in self.bodies if not b.covers_reduction and self.levels[b.name] == level]

    def store_value(self, name: str, index: Expr, value: TextValue) -> None:
        """Store an output that is complete."""
        if name not in self.schedule.removed:
            text, _ = self.handler.index(index)
            element = operators.store(self.arguments.dtypes[name], value.text)
            self.handler.block.lines.append(f"{self.arguments.pointer(name)}[{text}] = {element}")
