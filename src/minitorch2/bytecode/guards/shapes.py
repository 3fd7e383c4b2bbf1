"""Guards on sizes that vary: relations between them, and how tensors of such sizes are laid out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sympy

from minitorch2.bytecode.guards.guard import Check, Guard, SourceGuard
from minitorch2.bytecode.guards.sources import Source
from minitorch2.graph.symbols import print_condition
from minitorch2.graph.symbols.conditions import Condition
from minitorch2.native.cpython.guard_machine import Op


@dataclass(frozen=True)
class ShapeCondition(Guard):
    """A relation between sizes (and other numbers) of the inputs.

    Attributes:
        condition: over symbols.
        symbols: the source of each symbol's value, such as ``x.shape[0]``.
        reason: the operator that needed it; empty for Python.
    """

    KIND = "SHAPE_ENV"
    condition: Condition
    symbols: tuple[tuple[sympy.Symbol, Source], ...]
    reason: str = ""

    def sources(self) -> tuple[Source, ...]:
        return tuple(source for _, source in self.symbols)

    def checks(self) -> Iterable[Check]:
        return (Check("shape", Op.AGREE, str(self), self),)

    def __str__(self) -> str:
        return print_condition(self.condition, {s: str(source) for s, source in self.symbols})


@dataclass(frozen=True)
class Contiguous(SourceGuard):
    """A tensor of varying sizes that lies in memory row by row, without holes."""

    KIND = "TENSOR_MATCH"
    rank: int

    def checks(self) -> Iterable[Check]:
        return (Check("contiguous layout", Op.CONTIGUOUS, True, self.rank),)
