"""Kernels whose stores may meet at one element: every thread has elements of its own."""

from __future__ import annotations

from collections.abc import Sequence

from minitorch2.codegen.common import Block
from minitorch2.codegen.numba.kernel_printer import KernelPrinter
from minitorch2.loopir.expressions import Expr, product

NARROWEST = 16
"""A thread should get so many neighbours in memory: a cache line of float32."""


class ScatterPrinter(KernelPrinter):
    """Loops that move the address are shared by threads; in each of them the others run in order.

    So two threads never meet at an element, and elements that meet add up as they do in eager. The
    shared loop along contiguous memory is the innermost of all:

        for i0 in range(lo, hi):             or, if there is no i0, the columns are shared:
            for i1 in range(k):                  for i1 in range(k):
                for i2 in range(n): ...              for i2 in range(lo, hi): ...
    """

    def write_loops(self) -> Expr:
        (body,) = self.bodies
        columns = [i for i in body.own_loops if body.writes_of[0].strides[i] == 1][:1]
        rows = [i for i in body.own_loops if i not in columns]
        ordered = [i for i in range(len(body.ranges)) if i not in body.own_loops]
        opened = [self._enter_part(rows)] if rows or not columns else []
        opened += [self._enter_whole(i) for i in ordered]
        opened += [self._enter_whole(i) if rows else self._enter_part([i]) for i in columns]
        self.run(body)
        for block in reversed(opened):
            self.leave(block)
        return product(self.node.ranges[i] for i in rows or columns)

    def _enter_part(self, loops: Sequence[int]) -> Block:
        """Open the loop shared by threads, over one loop of the node or several."""
        if not loops:
            return self.enter("for i in range(lo, hi):")
        ranges = [self.node.ranges[i] for i in loops]
        return self.enter_shared([str(self.kept[i]) for i in loops], ranges)

    def _enter_whole(self, loop: int) -> Block:
        name = str(self.kept[loop])
        return self.enter(f"for {name} in range({self.text(self.node.ranges[loop])}):", name)

    def _grain(self) -> int:
        return max(NARROWEST, super()._grain())

    def inner_sizes(self) -> Sequence[Expr]:
        own = self.bodies[0].own_loops
        return [n for i, n in enumerate(self.node.ranges) if i not in own]
