"""The least and greatest value of a size expression, given the ranges of its symbols.

    Range ::= [low, high]      integers; low may be -inf, high may be +inf

A sum is bounded term by term after each symbol is written as its least value plus a rest that is
not negative. So ``s0*s1 - s0`` with both at least 2 is ``2 + k0 + 2*k1 + k0*k1``, which is at least
2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import sympy

from minitorch2.graph.symbols.division import FloorDiv, ModularIndexing, to_expr
from minitorch2.graph.symbols.expression import Expr
from minitorch2.graph.symbols.polynomials import Product, Sum, atoms_of, shifted, sum_of

Bound: TypeAlias = int | float
"""An integer, or an infinity."""


@dataclass(frozen=True, slots=True)
class Range:
    """All integers from ``low`` to ``high``, both included."""

    low: Bound
    high: Bound

    def __str__(self) -> str:
        if self.high == math.inf:
            return "any" if self.low == -math.inf else f">= {self.low}"
        return f"{self.low} .. {self.high}"

    def meet(self, other: Range) -> Range:
        """Return the integers in both ranges."""
        return Range(max(self.low, other.low), min(self.high, other.high))

    def plus(self, other: Range) -> Range:
        """Return the range of sums of one integer of each range."""
        return Range(self.low + other.low, self.high + other.high)

    def times(self, factor: int) -> Range:
        """Return the range of its integers multiplied by a number."""
        ends = (_product(self.low, factor), _product(self.high, factor))
        return Range(min(ends), max(ends))


ANY: Final = Range(-math.inf, math.inf)
Ranges: TypeAlias = Mapping[sympy.Symbol, Range]
Known: TypeAlias = dict[Any, Range]
"""The ranges of expressions that were asked for already."""


def _product(a: Bound, b: Bound) -> Bound:
    return 0 if a == 0 or b == 0 else a * b


def range_of(expr: Expr, ranges: Ranges, known: Known | None = None) -> Range:
    """Return bounds of an integer expression; symbols without a range may be any integer.

    Args:
        expr: the expression; parts that occur twice are bounded once.
        ranges: what the values of symbols are between.
        known: what is right for these ``ranges`` from earlier calls; it is added to.

    >>> s = sympy.Symbol("s", integer=True)
    >>> print(range_of(2 * s + 1, {s: Range(2, math.inf)}))
    >= 5
    """
    if isinstance(expr, int):
        return Range(expr, expr)
    if expr.is_Integer:
        return Range(int(expr), int(expr))
    if expr.is_Symbol:
        return ranges.get(expr, ANY)
    known = {} if known is None else known
    if expr not in known:
        known[expr] = _compound_range(expr, ranges, known)
    return known[expr]


def _compound_range(expr: sympy.Expr, ranges: Ranges, known: Known) -> Range:
    if isinstance(expr, (FloorDiv, ModularIndexing, sympy.Max, sympy.Min)):
        return _function_range(expr, ranges, known)
    terms = sum_of(expr)
    is_atom = terms is not None and terms.get(frozenset({(expr, 1)})) is not None
    return ANY if is_atom else sum_range(terms, ranges, known)


def _function_range(expr: sympy.Expr, ranges: Ranges, known: Known) -> Range:
    parts = [range_of(to_expr(part), ranges, known) for part in expr.args]
    if isinstance(expr, sympy.Max):
        return Range(max(p.low for p in parts), max(p.high for p in parts))
    if isinstance(expr, sympy.Min):
        return Range(min(p.low for p in parts), min(p.high for p in parts))
    if isinstance(expr, FloorDiv):
        return _quotient(*parts)
    dividend, divisor, modulus = parts
    quotient = _quotient(dividend, divisor)
    high = modulus.high - 1
    return Range(0, min(high, quotient.high) if quotient.low >= 0 else high)


def _quotient(a: Range, b: Range) -> Range:
    if b.low < 1:
        return ANY
    low = _floor(a.low, b.high if a.low >= 0 else b.low)
    high = _floor(a.high, b.low if a.high >= 0 else b.high)
    return Range(low, high)


def _floor(a: Bound, b: Bound) -> Bound:
    if math.isinf(a):
        return a
    if math.isinf(b):
        return 0 if a >= 0 else -1
    return int(a) // int(b)


def sum_range(terms: Sum | None, ranges: Ranges, known: Known) -> Range:
    """Return bounds of a sum of products, each atom shifted by its least value."""
    if terms is None:
        return ANY
    limits = {atom: range_of(to_expr(atom), ranges, known) for atom in atoms_of(terms)}
    least = {atom: limit.low for atom, limit in limits.items()}
    if -math.inf in least.values():
        return _interval_sum(terms, limits)
    rests = shifted(terms, {atom: int(low) for atom, low in least.items()})
    if rests is None:
        return _interval_sum(terms, limits)
    above = {atom: Range(0, limit.high - limit.low) for atom, limit in limits.items()}
    return _interval_sum(rests, above)


def _interval_sum(terms: Sum, limits: Mapping[Any, Range]) -> Range:
    total = Range(0, 0)
    for product, coefficient in terms.items():
        total = total.plus(_power_range(product, limits).times(coefficient))
    return total


def _power_range(product: Product, limits: Mapping[Any, Range]) -> Range:
    """Bound a product of powers of atoms: any value if one of several atoms may be negative."""
    if len(product) == 1:
        ((atom, exponent),) = product
        if exponent == 1:
            return limits[atom]
    low: Bound = 1
    high: Bound = 1
    for atom, exponent in product:
        limit = limits[atom]
        if limit.low < 0:
            return ANY
        low = _product(low, limit.low**exponent)
        high = _product(high, limit.high**exponent)
    return Range(low, high)
