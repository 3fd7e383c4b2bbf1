"""Index arithmetic: integer expressions over indices and sizes, and how they become simple.

    Expr ::= int | SymPy integer expression over index symbols (>= 0) and size symbols (>= 1),
             with  FloorDiv(a, b) = a // b   and   ModularIndexing(a, d, m) = a // d % m

Rules that always hold are applied when an expression is built (`graph.symbols.division`); rules
that need the ranges of the indices are in `simplify`. A reshape of a contiguous tensor so becomes
the plain index it was (PyTorch 2 paper, section 4.5).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

import sympy

from minitorch2.graph.symbols import Expr
from minitorch2.graph.symbols.division import (
    FloorDiv,
    ModularIndexing,
    divide_exactly,
    equal,
    floor_div,
    is_nonnegative,
    modular_indexing,
    product,
    split_multiples,
    to_expr,
)
from minitorch2.graph.symbols.polynomials import multiply_out

__all__ = ["Expr", "FloorDiv", "ModularIndexing", "Ranges", "bounds", "divide_exactly", "equal",
           "floor_div", "index_symbol", "index_symbols", "is_less", "is_nonnegative",
           "modular_indexing", "product", "simplify", "to_expr"]  # fmt: skip

Ranges: TypeAlias = tuple[tuple[sympy.Symbol, Expr], ...]
"""Each index symbol with its size: `0 <= symbol < size`."""


def index_symbol(name: str) -> sympy.Symbol:
    """Return an index variable: an integer that is not negative."""
    return sympy.Symbol(name, integer=True, nonnegative=True)


@lru_cache(4096)
def index_symbols(prefix: str, count: int) -> tuple[sympy.Symbol, ...]:
    """`count` index variables `prefix0, prefix1, ...`."""
    return tuple(index_symbol(f"{prefix}{i}") for i in range(count))


def is_less(a: Expr, b: Expr) -> bool:
    """Return whether `a < b` is certain."""
    return is_nonnegative(to_expr(b - a - 1))


@lru_cache(16384)
def bounds(expr: Expr, ranges: Ranges) -> tuple[Expr, Expr] | None:
    """Return the least and the largest value of `expr`, inclusive, if they can be found.

    Sizes may be symbols, and then so are the bounds. The ranges are taken as not empty.
    """
    if isinstance(expr, int) or expr.is_Integer:
        return to_expr(expr), to_expr(expr)
    if expr.is_Symbol:
        size = dict(ranges).get(expr)
        return (expr, expr) if size is None else (0, to_expr(size - 1))
    parts = [bounds(argument, ranges) for argument in expr.args]
    if any(part is None for part in parts):
        return None
    known = [part for part in parts if part is not None]
    if expr.is_Add:
        low, high = sum(p[0] for p in known), sum(p[1] for p in known)
        return to_expr(low), to_expr(high)
    if expr.is_Mul:
        return _product_bounds(known)
    if isinstance(expr, FloorDiv):
        return _quotient_bounds(known)
    if isinstance(expr, ModularIndexing):
        return _modular_bounds(known)
    return None


def _product_bounds(factors: Sequence[tuple[Expr, Expr]]) -> tuple[Expr, Expr] | None:
    low: Expr = 1
    high: Expr = 1
    sign = 1
    for factor_low, factor_high in factors:
        if is_nonnegative(factor_low):
            low, high = low * factor_low, high * factor_high
        elif is_nonnegative(to_expr(-factor_high)):
            low, high, sign = low * -factor_high, high * -factor_low, -sign
        else:
            return None
    return (to_expr(low), to_expr(high)) if sign > 0 else (to_expr(-high), to_expr(-low))


def _quotient_bounds(parts: Sequence[tuple[Expr, Expr]]) -> tuple[Expr, Expr] | None:
    (low, high), (divisor, divisor_high) = parts
    return (floor_div(low, divisor), floor_div(high, divisor)) if divisor == divisor_high else None


def _modular_bounds(parts: Sequence[tuple[Expr, Expr]]) -> tuple[Expr, Expr] | None:
    (low, high), (d, _), (m, modulus_high) = parts
    if m != modulus_high:
        return None
    quotient_high = floor_div(high, d)
    if is_nonnegative(low) and is_less(quotient_high, m):
        return 0, quotient_high
    return 0, to_expr(m - 1)


@lru_cache(16384)
def simplify(expr: Expr, ranges: Ranges) -> Expr:
    """Return an equal expression in simpler form, given that each index is inside its range.

    The rules are::

        q*b <= a < (q+1)*b    =>  a // b --> q
        0 <= a < d*m          =>  a // d % m --> a // d
        q*m <= a < (q+1)*m    =>  a % m --> a - q*m
        0 <= r < g, g | d     =>  (g*q + r) // d --> q // (d/g)
        m*(x // m) + x % m        --> x
    """
    if isinstance(expr, int) or not expr.has(FloorDiv, ModularIndexing):
        return to_expr(multiply_out(expr))
    arguments = [sympy.sympify(simplify(argument, ranges)) for argument in expr.args]
    rebuilt = expr.func(*arguments)
    if isinstance(rebuilt, FloorDiv):
        return _simplify_floor_div(rebuilt, ranges)
    if isinstance(rebuilt, ModularIndexing):
        return _simplify_modular(rebuilt, ranges)
    rebuilt = multiply_out(rebuilt)
    return to_expr(_join_quotient_and_rest(rebuilt, ranges) if rebuilt.is_Add else rebuilt)


def _simplify_floor_div(expr: FloorDiv, ranges: Ranges) -> Expr:
    a, b = expr.args
    if isinstance(a, ModularIndexing) and a.args[2].is_Integer and a.args[2] % b == 0:
        inner, step, extent = a.args  # of several digits, all but the last ones
        return simplify(ModularIndexing(inner, step * b, extent / b), ranges)
    limits = bounds(a, ranges)
    if limits and is_nonnegative(limits[0]) and is_less(limits[1], to_expr(b)):
        return 0
    quotient = _quotient(limits, b)
    if quotient is not None:
        return quotient
    reduced = _drop_small_terms(a, b, ranges)
    return simplify(FloorDiv(reduced, b), ranges) if reduced != a else expr


def _simplify_modular(expr: ModularIndexing, ranges: Ranges) -> Expr:
    a, d, m = expr.args
    limits = bounds(a, ranges)
    if limits and is_nonnegative(limits[0]) and is_less(limits[1], to_expr(multiply_out(d * m))):
        return simplify(floor_div(to_expr(a), to_expr(d)), ranges)
    quotient = _quotient(limits, m) if d == 1 else None
    if quotient is not None:
        return to_expr(multiply_out(a - quotient * m))
    reduced = _drop_small_terms(a, d, ranges)
    return simplify(ModularIndexing(reduced, d, m), ranges) if reduced != a else expr


def _quotient(limits: tuple[Expr, Expr] | None, divisor: sympy.Expr) -> int | None:
    """Return the quotient by a number, if it is the same for all values in the limits."""
    if limits is None or not (divisor.is_Integer and all(isinstance(n, int) for n in limits)):
        return None
    low, high = (int(limit) // int(divisor) for limit in limits)
    return low if low == high else None


def _drop_small_terms(a: sympy.Expr, d: sympy.Expr, ranges: Ranges) -> sympy.Expr:
    """Drop terms r of `a = g*q + r` that cannot carry into `a // d`: g divides d, 0 <= r < g."""
    terms = sympy.Add.make_args(a)
    for term in terms:
        factor = _common_factor(term, d)
        if factor == 1:
            continue
        large, small = split_multiples(a, factor)
        limits = bounds(small, ranges)
        if small == 0 or limits is None:
            continue
        if is_nonnegative(limits[0]) and is_less(limits[1], to_expr(factor)):
            return multiply_out(large * factor)
    return a


def _common_factor(term: sympy.Expr, d: sympy.Expr) -> sympy.Expr:
    """Return a factor of `d` that divides `term`: their greatest common divisor."""
    if not d.is_Integer:
        return sympy.gcd(term, d)
    coefficient = term.as_coeff_Mul()[0]
    return sympy.Integer(math.gcd(int(coefficient), int(d)) if coefficient.is_Integer else 1)


def _join_quotient_and_rest(expr: sympy.Expr, ranges: Ranges) -> sympy.Expr:
    """Join two neighbouring digits of a number `x` to one, wherever a sum has such a pair.

    c*m*(x // (d*m)) + c*(x // d % m)          -->  c*(x // d)
    c*m*(x // (d*m) % n) + c*(x // d % m)      -->  c*(x // d % (m*n))
    """
    for term in expr.args:
        for modular in term.atoms(ModularIndexing):
            coefficient = term / modular
            if coefficient.has(ModularIndexing):
                continue
            x, d, m = modular.args
            for higher, joined in _next_digits(expr, x, d, m, ranges):
                remaining = multiply_out(expr - term - coefficient * m * higher)
                if remaining == 0 or len(sympy.Add.make_args(remaining)) < len(expr.args) - 1:
                    result = multiply_out(remaining + coefficient * joined)
                    return _join_quotient_and_rest(result, ranges) if result.is_Add else result
    return expr


def _next_digits(
    expr: sympy.Expr, x: sympy.Expr, d: sympy.Expr, m: sympy.Expr, ranges: Ranges
) -> Iterator[tuple[Expr, Expr]]:
    """Yield each digit that may stand above the digit `x // d % m`, and both digits joined."""
    yield simplify(FloorDiv(x, d * m), ranges), simplify(FloorDiv(x, d), ranges)
    for digit in expr.atoms(ModularIndexing):
        if digit.args[0] == x and digit.args[1] == d * m:
            yield digit, simplify(ModularIndexing(x, d, m * digit.args[2]), ranges)
