"""The least and greatest value that a size expression can have, given those of its symbols.

    Range ::= [low, high]      integers; low may be -inf, high may be +inf

A sum is bounded term by term after each symbol is written as its least value plus a rest that is
not negative: ``s0*s1 - s0`` with both at least 2 is ``2 + k0 + 2*k1 + k0*k1``, so at least 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import sympy

from minitorch2.graph.symbols.division import FloorDiv, ModularIndexing, to_expr
from minitorch2.graph.symbols.expression import Expr

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
        """The integers in both."""
        return Range(max(self.low, other.low), min(self.high, other.high))

    def plus(self, other: Range) -> Range:
        """The sums of one integer of each."""
        return Range(self.low + other.low, self.high + other.high)

    def times(self, factor: int) -> Range:
        """The multiples by a number."""
        ends = (_product(self.low, factor), _product(self.high, factor))
        return Range(min(ends), max(ends))


ANY: Final = Range(-math.inf, math.inf)
Ranges: TypeAlias = Mapping[sympy.Symbol, Range]


def _product(a: Bound, b: Bound) -> Bound:
    return 0 if a == 0 or b == 0 else a * b


def range_of(expr: Expr, ranges: Ranges) -> Range:
    """Bounds of an integer expression; symbols without a range may be any integer.

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
    if isinstance(expr, (FloorDiv, ModularIndexing, sympy.Max, sympy.Min)):
        return _function_range(expr, ranges)
    return _polynomial_range(expr, ranges)


def _function_range(expr: sympy.Expr, ranges: Ranges) -> Range:
    parts = [range_of(to_expr(part), ranges) for part in expr.args]
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


def _polynomial_range(expr: sympy.Expr, ranges: Ranges) -> Range:
    """Bounds of a sum of products, each atom shifted by its least value."""
    atoms = _atoms(expr)
    limits = {atom: range_of(to_expr(atom), ranges) for atom in atoms}
    shifts, rests = {}, {}
    for number, (atom, limit) in enumerate(limits.items()):
        rest = sympy.Dummy(f"k{number}", integer=True, nonnegative=True)
        if math.isinf(limit.low):
            return _interval_sum(expr, limits)
        shifts[atom] = int(limit.low) + rest
        rests[rest] = Range(0, limit.high - limit.low)
    return _interval_sum(sympy.expand(expr.xreplace(shifts)), rests)


def _atoms(expr: sympy.Expr) -> list[sympy.Expr]:
    """What an expanded polynomial is made of: symbols and functions."""
    found: dict[sympy.Expr, None] = {}
    for term in sympy.Add.make_args(expr):
        for base in term.as_powers_dict():
            if not base.is_Integer:
                found[base] = None
    return list(found)


def _interval_sum(expr: sympy.Expr, limits: Mapping[Any, Range]) -> Range:
    total = Range(0, 0)
    for term in sympy.Add.make_args(expr):
        coefficient, product = term.as_coeff_Mul()
        if not coefficient.is_Integer:
            return ANY
        total = total.plus(_power_range(product, limits).times(int(coefficient)))
    return total


def _power_range(product: sympy.Expr, limits: Mapping[Any, Range]) -> Range:
    """Bounds of a product of powers of atoms that are not negative; else any, but for one atom."""
    if product == 1:
        return Range(1, 1)
    if product in limits:
        return limits[product]
    low: Bound = 1
    high: Bound = 1
    for base, exponent in product.as_powers_dict().items():
        limit = limits.get(base, ANY)
        if limit.low < 0 or not exponent.is_Integer or exponent < 0:
            return ANY
        low = _product(low, limit.low ** int(exponent))
        high = _product(high, limit.high ** int(exponent))
    return Range(low, high)
