"""Reads and writes of a loop body: buffer names with symbolic addresses.

    dependency ::= MemoryDep(name, index, ranges)

The address is an expression of canonical variables c0, c1, ... (loop variables first, then the
reduction's), so that two bodies over the same ranges can be compared. The scheduler may fuse a
producer and a consumer only where these addresses agree (PyTorch 2 paper, section 4.4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sympy

from minitorch2.graph.symbols.polynomials import multiply_out
from minitorch2.loopir.expressions import Expr, Ranges, equal, index_symbols, product, simplify
from minitorch2.loopir.handlers.recorder import RecordingHandler
from minitorch2.loopir.layout import Size
from minitorch2.loopir.loops import Index
from minitorch2.loopir.ops import use_handler


@dataclass(frozen=True)
class MemoryDep:
    """An access to `name[index]` for every value of the variables in `ranges`."""

    name: str
    index: Expr
    ranges: Ranges

    @property
    def variables(self) -> frozenset[sympy.Symbol]:
        """The loop variables that the address really depends on."""
        symbols = frozenset() if isinstance(self.index, int) else self.index.free_symbols
        return frozenset(symbol for symbol, _ in self.ranges) & symbols

    def numel(self) -> Expr:
        """Return the number of different elements accessed, at most (indirect ones not counted)."""
        used = self.variables
        return product(size for symbol, size in self.ranges if symbol in used)

    def stride(self, variable: sympy.Symbol) -> Expr:
        """Return the change of the address when `variable` steps from 0 to 1."""
        if isinstance(self.index, int):
            return 0
        step = self.index.subs(variable, 1) - self.index.subs(variable, 0)
        return simplify(multiply_out(step), self.ranges)

    def normalize(self) -> MemoryDep:
        """Return the same accesses in the same order with as few variables as possible.

        Variables that do not matter are dropped; neighbours that walk memory as one are merged:
        `c1 + 8*c0` over (4, 8) becomes `c0` over (32).
        """
        kept = [(s, n) for s, n in self.ranges if s in self.variables and n != 1]
        merged: list[tuple[Expr, Expr]] = []
        for symbol, size in kept:
            stride = self.stride(symbol)
            if merged and equal(merged[-1][0], stride * size):
                merged[-1] = (stride, product((merged[-1][1], size)))
            else:
                merged.append((stride, size))
        if not self._is_linear(kept):
            return MemoryDep(self.name, self.index, tuple(kept))
        return self._from_strides(merged, kept)

    def _is_linear(self, variables: list[tuple[sympy.Symbol, Expr]]) -> bool:
        linear = sum((self.stride(s) * s for s, _ in variables), self._origin())
        return equal(linear, self.index)

    def _origin(self) -> Expr:
        if isinstance(self.index, int):
            return self.index
        origin: Expr = self.index.subs({symbol: 0 for symbol, _ in self.ranges})
        return origin

    def _from_strides(
        self, merged: list[tuple[Expr, Expr]], kept: list[tuple[sympy.Symbol, Expr]]
    ) -> MemoryDep:
        symbols = index_symbols("c", len(merged))
        index = sum((st * sy for (st, _), sy in zip(merged, symbols, strict=True)), self._origin())
        ranges = tuple((sy, size) for (_, size), sy in zip(merged, symbols, strict=True))
        return MemoryDep(self.name, simplify(index, ranges), ranges)


@dataclass(frozen=True)
class ReadWrites:
    """All accesses of one loop body."""

    reads: frozenset[MemoryDep]
    writes: frozenset[MemoryDep]


def extract_reads_writes(
    run: Callable[[Index, Index], None], ranges: Size, reduction_ranges: Size = ()
) -> ReadWrites:
    """Run a body under the recorder; `run(index, reduction_index)` ends in its store."""
    symbols = index_symbols("c", len(ranges) + len(reduction_ranges))
    limits: Ranges = tuple(zip(symbols, (*ranges, *reduction_ranges), strict=True))
    recorder = RecordingHandler()
    with use_handler(recorder):
        run(symbols[: len(ranges)], symbols[len(ranges) :])

    def dependencies(accesses: dict[tuple[str, Expr], None]) -> frozenset[MemoryDep]:
        return frozenset(MemoryDep(n, simplify(index, limits), limits) for n, index in accesses)

    return ReadWrites(dependencies(recorder.reads), dependencies(recorder.writes))
