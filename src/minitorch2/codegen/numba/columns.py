"""Kernels whose reductions run across rows: neighbouring outputs have arrays of accumulators."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from minitorch2 import config
from minitorch2.codegen.common import Block, TextValue
from minitorch2.codegen.numba import operators
from minitorch2.codegen.numba.reduction import ReductionPrinter
from minitorch2.loopir.expressions import Expr, floor_div, product
from minitorch2.loopir.memory_plan import SCRATCH_COLUMNS
from minitorch2.loopir.ops import ReductionKind

WIDEST_BLOCK = 1024
# Longer sums of float32 are made of pieces.
LONG_COLUMN_SUM = 1024


def _better(kind: str, candidate: TextValue, position: TextValue, best: str, place: str) -> str:
    """Return whether a candidate wins: NaN over numbers, of equal ones the smallest position."""
    sign = ">" if kind == "argmax" else "<"
    text = f"({candidate} {sign} {best}) | (({candidate} == {best}) & ({position} < {place}))"
    if candidate.dtype.is_floating_point:
        nan, known = f"({candidate} != {candidate})", f"({best} == {best})"
        text += f" | ({nan} & ({known} | ({position} < {place})))"
    return text


class ColumnPrinter(ReductionPrinter):
    """The printer of reductions across rows: a block of neighbouring outputs has an array of
    accumulators.
    """

    longest_sum = LONG_COLUMN_SUM

    def write_loops(self) -> Expr:
        *outer, width = self.node.ranges
        self.width = width
        most = SCRATCH_COLUMNS if self.needs_scratch() else WIDEST_BLOCK
        blocks, self.share = _division(product(outer), width, most)
        self.length = self.share if isinstance(self.share, int) else most
        self.limits = "start, stop"
        if blocks == 1:
            self.limits = str(width)  # a constant number of turns can be unrolled
            loop = (
                self.enter_flattened(len(outer)) if outer else self.enter("for i in range(lo, hi):")
            )
        else:
            loop = self.enter_flattened(len(outer), blocks, "block")
            known = isinstance(self.share, int)
            share = str(self.share) if known else self.arguments.size(self.share)
            loop.lines += [
                f"start = block * {share}",
                f"stop = min(start + {share}, {self.text(width)})",
            ]
        self.write_passes()
        self.leave(loop)
        return product((*outer, blocks))

    def inner_sizes(self) -> Sequence[Expr]:
        return (*self.node.reduction_ranges, self.share)

    def enter_columns(self) -> Block:
        """Open the vectorized loop over the outputs of the block."""
        symbol = str(self.kept[-1])
        block = self.enter(f"for {symbol} in range({self.limits}):", symbol, "column")
        block.lines.append(f"column = {symbol}" + (" - start" if "start" in self.limits else ""))
        return block

    def enter_reduction(self, *, in_pieces: bool = False) -> list[Block]:
        self.outside = self.handler.block
        return [*self.reduction_loops(in_pieces=in_pieces), self.enter_columns()]

    def _position(self) -> str:
        return f"({super()._position()}) * {self.length} + column"

    def scratch_length(self) -> Expr:
        return product((*self.node.reduction_ranges, self.length))

    def _accumulator(
        self, prefix: str, dtype: torch.dtype, start: bool | int | float, block: Block | None = None
    ) -> str:
        """Return an element of an array of accumulators, set to their start before the pass."""
        name = self.local_array(prefix, self.length, dtype)
        value = operators.store(dtype, operators.constant(start, dtype))
        (block or self.outside).lines += self._for_columns(f"{name}[column] = {value}")
        return f"{name}[column]"

    def _for_columns(self, line: str) -> list[str]:
        width = "stop - start" if "start" in self.limits else self.limits
        return [f"for column in range({width}):", f"    {line}"]

    def _reduce(
        self, kind: ReductionKind, dtype: torch.dtype, values: list[TextValue]
    ) -> TextValue:
        source = values[0].dtype
        if kind in ("argmax", "argmin"):
            return self._reduce_position(kind, values)
        held = self.accumulator_dtype(kind, source)
        place = self._accumulator("acc", held, operators.neutral(kind, held))
        if self.piece is None or held == source:
            self.handler.block.lines.append(_step(kind, place, values[0].text, source, held))
        else:
            part = self._accumulator("part", source, operators.neutral(kind, source), self.piece)
            self.handler.block.lines.append(_step(kind, part, values[0].text, source, source))
            self.piece_ends += self._for_columns(_step(kind, place, part, source, held))
        return TextValue(operators.convert(operators.load(held, place), held, dtype), dtype, 0)

    def _reduce_position(self, kind: ReductionKind, values: list[TextValue]) -> TextValue:
        candidate, position = values
        neutral = operators.neutral(kind, candidate.dtype)
        best = self._accumulator("best", candidate.dtype, neutral)
        place = self._accumulator("place", torch.int64, 2**63 - 1)
        choice = self.handler.namer.fresh("better")
        held = operators.load(candidate.dtype, best)
        chosen = operators.store(candidate.dtype, f"where({choice}, {candidate}, {held})")
        self.handler.block.lines += [
            f"{choice} = {_better(kind, candidate, position, held, place)}",
            f"{best} = {chosen}",
            f"{place} = where({choice}, {position}, {place})",
        ]
        return TextValue(place, torch.int64, 0)

    def write_outputs(self, level: int) -> None:
        members = self.outputs_of(level)
        if not members and not self.handler.pending:
            return
        loop = self.enter_columns()
        for name, index, value in self.handler.pending:
            result = self.handler.assign(value.text, value.dtype, loop.depth, "result")
            self._share(name, result)
            self.store_value(name, index, result)
        self.handler.pending.clear()
        for body in members:
            self.run(body)
            self._share(body.name, self.handler.at_hand[body.name]())
        self.leave(loop)
        for name in [*self._shared]:
            place, dtype = self._shared[name]
            self.handler.at_hand[name] = lambda place=place, dtype=dtype: self.handler.assign(  # type: ignore[misc]
                operators.load(dtype, place), dtype, self.handler.block.depth
            )

    @property
    def _shared(self) -> dict[str, tuple[str, torch.dtype]]:
        """The places of outputs that other loops of the kernel read."""
        return self.__dict__.setdefault("_shared_places", {})  # type: ignore[no-any-return]

    def _share(self, name: str, value: TextValue) -> None:
        """Keep an output for the loops after this one, if any reads it."""
        self.handler.at_hand[name] = lambda: value
        if any(name in body.read_names for body in self.bodies):
            place = f"{self.local_array('value', self.length, value.dtype)}[column]"
            self.handler.block.lines.append(f"{place} = {operators.store(value.dtype, value.text)}")
            self._shared[name] = (place, value.dtype)


def _step(kind: str, place: str, value: str, source: torch.dtype, held: torch.dtype) -> str:
    """Return the line that adds a value to an accumulator in memory."""
    value = operators.convert(value, source, held)
    step = operators.combine(kind, operators.load(held, place), value, held)
    return f"{place} = {operators.store(held, step)}"


def _division(outer: Expr, width: Expr, most: int) -> tuple[Expr, Expr]:
    """Return the number of blocks that a row is divided into, and their columns.

    Threads that no outer iteration needs get a block each: the wider a block is, the more of a row
    is read at a time. A width that is not known when the kernel is printed is divided when it is
    called; then the last blocks may be empty.
    """
    threads = config.current().threads or torch.get_num_threads()
    if isinstance(outer, int):
        threads = -(-threads // outer)
    if isinstance(width, int):
        share = min(most, SCRATCH_COLUMNS * max(1, -(-width // (threads * SCRATCH_COLUMNS))))
        share = max(1, min(share, width))
        return -(-width // share), share
    blocks = threads * (floor_div(width, threads * most) + 1)
    unit = SCRATCH_COLUMNS * blocks
    return blocks, floor_div(width + unit - 1, unit) * SCRATCH_COLUMNS
