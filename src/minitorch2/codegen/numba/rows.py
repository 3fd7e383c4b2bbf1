"""Kernels whose reductions run along contiguous memory: an accumulator is a variable."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from minitorch2.codegen.common import Block, TextValue
from minitorch2.codegen.numba import operators
from minitorch2.codegen.numba.reduction import ReductionPrinter
from minitorch2.loopir.expressions import Expr, product
from minitorch2.loopir.ops import ReductionKind
from minitorch2.loopir.schedule import SchedulerNode

# Longer sums of float32 are made of pieces. A row's sum is many sums side by side, one per
# vector lane, so it may be longer than a column's.
LONG_ROW_SUM = 16384


class RowPrinter(ReductionPrinter):
    """The printer of reductions along contiguous memory: accumulators are variables."""

    longest_sum = LONG_ROW_SUM
    searches: list[tuple[SchedulerNode, str, str]]

    def write_loops(self) -> Expr:
        self.searches = []
        ranges = self.node.ranges
        row = self.enter_flattened(len(ranges)) if ranges else self.enter("for i in range(lo, hi):")
        self.write_passes()
        self.leave(row)
        return product(ranges)

    def enter_reduction(self, *, in_pieces: bool = False) -> list[Block]:
        self.row = self.handler.block
        return self.reduction_loops(in_pieces=in_pieces)

    def _reduce(
        self, kind: ReductionKind, dtype: torch.dtype, values: list[TextValue]
    ) -> TextValue:
        source = values[0].dtype
        if kind in ("argmax", "argmin"):
            return self._reduce_position(kind, values)
        if kind in ("max", "min") and source.is_floating_point:
            return self._reduce_rank(kind, values[0])
        held = self.accumulator_dtype(kind, source)
        accumulator = self._accumulator("acc", self.row, kind, held)
        if self.piece is None or held == source:
            self.handler.block.lines.append(_step(kind, accumulator, values[0].text, source, held))
        else:
            part = self._accumulator("part", self.piece, kind, source)
            self.handler.block.lines.append(_step(kind, part, values[0].text, source, source))
            self.piece_ends.append(_step(kind, accumulator, part, source, held))
        return TextValue(operators.convert(accumulator, held, dtype), dtype, self.row.depth)

    def _accumulator(self, prefix: str, block: Block, kind: str, dtype: torch.dtype) -> str:
        """Return a variable, set to its start in a block."""
        name = self.handler.namer.fresh(prefix)
        block.lines.append(f"{name} = {operators.constant(operators.neutral(kind, dtype), dtype)}")
        return name

    def _reduce_rank(self, kind: ReductionKind, value: TextValue) -> TextValue:
        """Reduce integers in the order of numbers: one instruction a step, NaN or not."""
        rank = "rank_nan_last" if kind == "max" else "rank_nan_first"
        accumulator = self.handler.namer.fresh("acc")
        start = operators.constant(operators.neutral(kind, value.dtype), value.dtype)
        self.row.lines.append(f"{accumulator} = {rank}({start})")
        self.handler.block.lines.append(f"{accumulator} = {kind}({accumulator}, {rank}({value}))")
        return TextValue(f"from_rank({accumulator})", value.dtype, self.row.depth)

    def _reduce_position(self, kind: ReductionKind, values: list[TextValue]) -> TextValue:
        """First the extreme value, which vectorizes; `_search` then looks for its position."""
        candidate, _ = values
        best, place = self.handler.namer.fresh("best"), self.handler.namer.fresh("place")
        start = operators.constant(operators.neutral(kind, candidate.dtype), candidate.dtype)
        nowhere = operators.constant(torch.iinfo(self._counter).max, self._counter)
        self.row.lines += [f"{best} = {start}", f"{place} = {nowhere}"]
        step = operators.combine(kind[3:], best, candidate.text, candidate.dtype)
        if candidate.dtype.is_floating_point:
            step = f"{kind[3:]}imum_any_order({best}, {candidate})"
        self.handler.block.lines.append(f"{best} = {step}")
        self.searches.append((self.current, best, place))
        return TextValue(f"int64({place})", torch.int64, self.row.depth)

    @property
    def _counter(self) -> torch.dtype:
        """The dtype of positions: vectors hold twice as many of the shorter one."""
        length = product(self.node.reduction_ranges)
        is_short = isinstance(length, int) and length < 2**31
        return torch.int32 if is_short else torch.int64

    def _search(self) -> None:
        """The smallest position of each extreme value, in another pass."""
        searches, self.searches = self.searches, []
        if not searches:
            return
        pending = [*self.handler.pending]
        loops = self.enter_reduction()
        for body, best, place in searches:
            self.handler.reduce = lambda kind, dtype, values, best=best, place=place: (  # type: ignore[misc]
                self._match(values, best, place)
            )
            self.run(body)
        self.handler.reduce = self._reduce
        self.handler.pending = pending
        for loop in reversed(loops):
            self.leave(loop)

    def _match(self, values: list[TextValue], best: str, place: str) -> TextValue:
        candidate, position = values
        found = f"{candidate} == {best}"
        if candidate.dtype.is_floating_point:
            found = f"({found}) | ({candidate} != {candidate})"  # NaN is found where it is best
        counted = operators.convert(position.text, torch.int64, self._counter)
        nowhere = operators.constant(torch.iinfo(self._counter).max, self._counter)
        step = f"{place} = min({place}, where({found}, {counted}, {nowhere}))"
        self.handler.block.lines.append(step)
        return TextValue(place, torch.int64, self.row.depth)

    def write_outputs(self, level: int) -> None:
        self._search()
        for name, index, value in self.handler.pending:
            result = self.handler.assign(
                value.text, value.dtype, self.handler.block.depth, "result"
            )
            self.handler.at_hand[name] = lambda result=result: result  # type: ignore[misc]
            self.store_value(name, index, result)
        self.handler.pending.clear()
        for body in self.outputs_of(level):
            self.run(body)

    def inner_sizes(self) -> Sequence[Expr]:
        return self.node.reduction_ranges


def _step(kind: str, accumulator: str, value: str, source: torch.dtype, held: torch.dtype) -> str:
    """Return the line that adds a value to an accumulator."""
    value = operators.convert(value, source, held)
    return f"{accumulator} = {operators.combine(kind, accumulator, value, held)}"
