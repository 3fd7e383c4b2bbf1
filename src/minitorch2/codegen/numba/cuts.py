"""Cuts of a kernel's innermost loop into several loops without conditions.

Bodies of concatenated parts, borders, windows, rotations and repetitions test the index in each
iteration: `if i1 < 400`, `(i1 + 397) % 400`. The loop is cut where the result of a test changes.
Within one of the new loops each result is fixed, so the loop is as plain as a copy:

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
    """Return the result of a comparison, if it is the same for all indices in their ranges."""
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
    """Return the start and length of the loops that the last of the loops `kept` is cut into.

    The list is empty if the loop stays whole.
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
    """Return the loops that a part is cut into; each part is tried again, as more may be plain."""
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
    """The handler that collects `cuts`: the indices at which a mask or an address changes."""

    def __init__(self, symbol: sympy.Symbol, size: int, ranges: Ranges) -> None:
        super().__init__()
        self.symbol, self.size, self.ranges = symbol, size, ranges
        self.cuts: set[int] = set()

    def index_expr(self, expr: Expr, dtype: torch.dtype) -> Asked:  # type: ignore[override]
        """Return the index itself."""
        return expr

    def constant(self, value: Number, dtype: torch.dtype) -> Asked:  # type: ignore[override]
        """Return a number that an index may be compared with."""
        return value if type(value) is int else None

    def elementwise(self, name: str, *args: Asked) -> Asked:  # type: ignore[override]
        """Follow conditions on the index through comparisons and logic."""
        if name in COMPARISONS and all(isinstance(arg, (int, sympy.Expr)) for arg in args):
            a, b = args
            return frozenset(self._changes(name, simplify(to_expr(a - b), self.ranges)))  # type: ignore[operator]
        if name.startswith("logical"):
            return frozenset().union(*(arg for arg in args if isinstance(arg, frozenset)))
        return None

    def masked(self, mask: Asked, body: Callable[[], None], other: Number) -> None:
        """Note the cuts of a mask and of the body that it guards."""
        self.cuts |= mask if isinstance(mask, frozenset) else set()
        body()

    def load(self, name: str, index: Expr) -> None:
        """Note the cuts of an address."""
        self._address(index)

    def store(self, name: str, index: Expr, value: None, mode: StoreMode = "set") -> None:
        """Note the cuts of an address."""
        self._address(index)

    def _changes(self, name: str, difference: Expr) -> Iterator[int]:
        """Yield the indices at which the comparison of `difference` with 0 changes its result."""
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
        """Return slope and start of an expression that is linear in the loop's index alone."""
        if isinstance(expr, int) or expr.free_symbols != {self.symbol}:
            return None
        slope = expr.coeff(self.symbol)
        start = multiply_out(expr - slope * self.symbol)
        return (int(slope), int(start)) if slope.is_Integer and start.is_Integer else None

    def _address(self, index: Expr) -> None:
        """Note where quotients of the index change, and remainders begin again."""
        simple = simplify(index, self.ranges)
        for atom in () if isinstance(simple, int) else simple.atoms(FloorDiv, ModularIndexing):
            dividend, divisor, *modulus = atom.args
            period = divisor * sympy.Mul(*modulus)
            line = self._line(to_expr(dividend))
            if line is not None and line[0] == 1 and period.is_Integer:
                first = -line[1] % int(period)
                places = range(first, self.size, int(period))
                self.cuts |= set(places) if len(places) < MOST_LOOPS else set()
