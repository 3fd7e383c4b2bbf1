"""Where the innermost loop of a kernel changes its ways: it is cut there into several loops.

Parts that lie side by side, borders, windows, rotations and repetitions ask in each turn where they
are: `if i1 < 400`, `(i1 + 397) % 400`. Between two places at which an answer changes there is
nothing to ask, so each of these loops is as plain as a copy:

    for i1 in range(800):                         for i1 in range(400):
        if i1 < 400: tmp = a[400*i0 + i1]             out[800*i0 + i1] = a[400*i0 + i1]
        else:        tmp = b[400*i0 + i1 - 400]   for i1 in range(400):
        out[800*i0 + i1] = tmp                        out[800*i0 + i1 + 400] = b[400*i0 + i1]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

import sympy
import torch

from minitorch2.graph.symbols.polynomials import multiply_out
from minitorch2.loopir.expressions import (
    Expr,
    FloorDiv,
    ModularIndexing,
    Ranges,
    bounds,
    simplify,
    to_expr,
)
from minitorch2.loopir.handlers.effects import EffectHandler
from minitorch2.loopir.ops import Number, StoreMode, use_handler
from minitorch2.loopir.schedule import SchedulerNode

MOST_LOOPS = 8
"""A loop that would be cut into more stays whole: each has the whole body."""
SHORTEST_LOOP = 64
"""So many turns repay a cut."""
COMPARISONS = {"lt", "le", "gt", "ge", "eq", "ne"}


def decided(name: str, a: Expr, b: Expr, ranges: Ranges) -> bool | None:
    """What a comparison answers wherever the indices are in their ranges, if that is one thing."""
    limits = bounds(simplify(to_expr(a - b), ranges), ranges)
    if limits is None or not all(isinstance(limit, int) for limit in limits):
        return None
    low, high = (_answer(name, int(limit)) for limit in limits)
    if name in ("eq", "ne") and limits[0] < 0 < limits[1]:
        return None
    return low if low == high else None


def _answer(name: str, difference: int) -> bool:
    answers = {
        "lt": difference < 0, "le": difference <= 0, "gt": difference > 0,
        "ge": difference >= 0, "eq": difference == 0, "ne": difference != 0,
    }  # fmt: skip
    return answers[name]


def cut(
    bodies: Sequence[SchedulerNode], kept: Sequence[sympy.Symbol], ranges: Ranges
) -> list[tuple[int, int]]:
    """The loops that the last of the loops `kept` is cut into: where each starts, how long it is.

    None if it stays whole.
    """
    size = dict(ranges)[kept[-1]]
    if not isinstance(size, int) or size < SHORTEST_LOOP:
        return []
    loops = _cut_again(bodies, kept, ranges, 0, size)
    return loops if 1 < len(loops) <= MOST_LOOPS else []


def _cut_again(
    bodies: Sequence[SchedulerNode],
    kept: Sequence[sympy.Symbol],
    ranges: Ranges,
    start: int,
    length: int,
) -> list[tuple[int, int]]:
    """The loops that a part is cut into. In each of them more may be plain: it is asked again."""
    symbol = kept[-1]
    within = tuple((s, length if s == symbol else n) for s, n in ranges)
    handler = _CutHandler(symbol, length, within)
    with use_handler(handler):
        for body in bodies:
            body.run((*kept[:-1], symbol + start))
    places = sorted({0, length, *handler.cuts})
    if not 2 < len(places) <= MOST_LOOPS + 1:
        return [(start, length)]
    parts = [(start + a, b - a) for a, b in pairwise(places)]
    return [loop for part in parts for loop in _cut_again(bodies, kept, ranges, *part)]


Asked: TypeAlias = "sympy.Expr | int | frozenset[int] | None"
"""An index, a condition by the places at which its answer changes, or any other value."""


class _CutHandler(EffectHandler):
    """`cuts` are the places at which a mask or an address changes its ways."""

    def __init__(self, symbol: sympy.Symbol, size: int, ranges: Ranges) -> None:
        super().__init__()
        self.symbol, self.size, self.ranges = symbol, size, ranges
        self.cuts: set[int] = set()

    def index_expr(self, expr: Expr, dtype: torch.dtype) -> Asked:  # type: ignore[override]
        """The index itself."""
        return expr

    def constant(self, value: Number, dtype: torch.dtype) -> Asked:  # type: ignore[override]
        """A number that an index may be compared with."""
        return value if type(value) is int else None

    def elementwise(self, name: str, *args: Asked) -> Asked:  # type: ignore[override]
        """Conditions on the index, and what is made of them."""
        if name in COMPARISONS and all(isinstance(arg, (int, sympy.Expr)) for arg in args):
            a, b = args
            return frozenset(self._changes(name, simplify(to_expr(a - b), self.ranges)))  # type: ignore[operator]
        if name.startswith("logical"):
            return frozenset().union(*(arg for arg in args if isinstance(arg, frozenset)))
        return None

    def masked(self, mask: Asked, body: Callable[[], None], other: Number) -> None:
        """What is read where the mask holds."""
        self.cuts |= mask if isinstance(mask, frozenset) else set()
        body()

    def load(self, name: str, index: Expr) -> None:
        """An address."""
        self._address(index)

    def store(self, name: str, index: Expr, value: None, mode: StoreMode = "set") -> None:
        """An address."""
        self._address(index)

    def _changes(self, name: str, difference: Expr) -> Iterator[int]:
        """Where `difference` compared with 0 gives another answer than one place before."""
        line = self._line(difference)
        if line is None:
            return
        slope, start = line
        zero, rest = divmod(-start, slope)
        places = [zero, zero + 1] if rest == 0 else [zero + 1]
        for place in places:
            at, before = slope * place + start, slope * (place - 1) + start
            if 0 < place < self.size and _answer(name, at) != _answer(name, before):
                yield place

    def _line(self, expr: Expr) -> tuple[int, int] | None:
        """The slope and the start of what is a line in the loop's index and in nothing else."""
        if isinstance(expr, int) or expr.free_symbols != {self.symbol}:
            return None
        slope = expr.coeff(self.symbol)
        start = multiply_out(expr - slope * self.symbol)
        return (int(slope), int(start)) if slope.is_Integer and start.is_Integer else None

    def _address(self, index: Expr) -> None:
        """Where quotients of the index change, and remainders begin again."""
        simple = simplify(index, self.ranges)
        for atom in () if isinstance(simple, int) else simple.atoms(FloorDiv, ModularIndexing):
            dividend, divisor, *modulus = atom.args
            period = divisor * sympy.Mul(*modulus)
            line = self._line(to_expr(dividend))
            if line is not None and line[0] == 1 and period.is_Integer:
                first = -line[1] % int(period)
                places = range(first, self.size, int(period))
                self.cuts |= set(places) if len(places) < MOST_LOOPS else set()
