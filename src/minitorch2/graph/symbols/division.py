"""Integer division of size expressions, and what is certain about their values.

    Expr ::= int | SymPy integer expression over symbols,
             with  FloorDiv(a, b) = a // b   and   ModularIndexing(a, d, m) = a // d % m

Both functions assume b, d, m >= 1, and no rule turns a dividend that is not negative into one
that is, so a target language may round either way. Rules that always hold are applied when an
expression is built (`eval`), so that equal sizes become equal expressions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import sympy

from minitorch2.graph.symbols.expression import Expr
from minitorch2.graph.symbols.polynomials import (
    MOST_PRODUCTS,
    atoms_of,
    multiply_out,
    products_in,
    shifted,
    sum_of,
)


def to_expr(value: Expr) -> Expr:
    """Convert a SymPy number to a Python int; leave everything else unchanged."""
    return int(value) if isinstance(value, sympy.Integer) else value


def product(sizes: Iterable[Expr]) -> Expr:
    """Return the product of sizes; 1 for none of them."""
    result: Expr = 1
    for size in sizes:
        result = result * size
    return to_expr(result)


@lru_cache(16384)
def equal(a: Expr, b: Expr) -> bool:
    """Return whether two expressions are certainly the same number."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return bool(multiply_out(a - b) == 0)


def divide_exactly(a: Expr, b: Expr) -> Expr | None:
    """`a / b` if it is certainly an integer expression, else None."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    return _divide_exactly(sympy.sympify(a), sympy.sympify(b))


@lru_cache(16384)
def _divide_exactly(a: sympy.Expr, b: sympy.Expr) -> Expr | None:
    if b.is_Integer:
        if a.is_Integer:
            return divide_exactly(int(a), int(b))
        coefficient, rest = a.as_coeff_Mul()
        if not coefficient.is_Integer or int(b) == 0 or int(coefficient) % int(b):
            return _divide_sum(a, b) if a.is_Add else None
        return to_expr(sympy.Integer(int(coefficient) // int(b)) * rest)
    quotient = sympy.cancel(a / b)
    denominator = sympy.fraction(quotient)[1]
    return to_expr(quotient) if denominator == 1 else None


def _divide_sum(a: sympy.Expr, b: sympy.Expr) -> Expr | None:
    parts = [_divide_exactly(term, b) for term in a.args]
    return None if None in parts else to_expr(sympy.Add(*parts))


def split_multiples(a: sympy.Expr, b: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr]:
    """`a = b * quotient + rest` with every term that `b` divides in the quotient.

    A sum divides several terms together: 4*(s*t + u) is 4 times s*t + u, and no term alone is.
    """
    if b.is_Add:
        return _divide_by_sum(a, b)
    quotient, rest = [], []
    for term in sympy.Add.make_args(a):
        divided = _divide_exactly(term, b)
        if divided is None:
            rest.append(term)
        else:
            quotient.append(divided)
    return sympy.Add(*quotient), sympy.Add(*rest)


@lru_cache(16384)
def _divide_by_sum(a: sympy.Expr, b: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr]:
    """Divide polynomials with integer coefficients."""
    nothing = sympy.Integer(0), a
    if products_in(a) * products_in(b) > MOST_PRODUCTS:
        return nothing
    try:
        quotient, rest = sympy.div(a, b, auto=False)
    except sympy.PolynomialError:
        return nothing
    return quotient, rest


def _coefficient_gcd(a: sympy.Expr) -> int:
    """Return the largest integer that divides every term of `a`."""
    return math.gcd(*(int(c) if (c := t.as_coeff_Mul()[0]).is_Integer else 1
                      for t in sympy.Add.make_args(a)))  # fmt: skip


class FloorDiv(sympy.Function):  # type: ignore[misc]  # SymPy has no types
    """`a // b` for integers, `b >= 1`."""

    nargs = (2,)
    is_integer = True

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        """b*q + r -> q + r // b or q - 1;  (x // y) // b -> x // (y*b);  g*a // (g*b) -> a // b."""
        if b == 1 or a == 0:
            return a
        if a.is_Integer and b.is_Integer:
            return sympy.Integer(int(a) // int(b))
        quotient, rest = split_multiples(multiply_out(a), b)
        if quotient != 0 and is_nonnegative(to_expr(rest)):
            return quotient + cls(rest, b)
        if quotient != 0 and rest.is_Integer and is_nonnegative(to_expr(b + rest)):
            return quotient - 1  # -b <= rest < 0
        if isinstance(a, FloorDiv):
            return cls(a.args[0], a.args[1] * b)
        if b.is_Integer and (divisor := math.gcd(_coefficient_gcd(a), int(b))) > 1:
            return cls(_divide_exactly(a, sympy.Integer(divisor)), sympy.Integer(int(b) // divisor))
        return None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if self.args[0].is_nonnegative else None


class ModularIndexing(sympy.Function):  # type: ignore[misc]  # SymPy has no types
    """`a // d % m` for integers, `d >= 1`, `m >= 1`."""

    nargs = (3,)
    is_integer = True
    is_nonnegative = True

    @classmethod
    def eval(cls, a: sympy.Expr, d: sympy.Expr, m: sympy.Expr) -> sympy.Expr | None:
        """Drop multiples of d*m and common factors; (x // y) // d % m -> x // (y*d) % m."""
        if m == 1 or a == 0:
            return sympy.Integer(0)
        if a.is_Integer and d.is_Integer and m.is_Integer:
            return sympy.Integer(int(a) // int(d) % int(m))
        quotient, rest = split_multiples(multiply_out(a), multiply_out(d * m))
        if quotient != 0 and is_nonnegative(to_expr(rest)):
            return cls(rest, d, m)
        if isinstance(a, FloorDiv):
            return cls(a.args[0], a.args[1] * d, m)
        if isinstance(a, ModularIndexing):
            base, inner_d, inner_m = a.args
            if divide_exactly(inner_m, d * m) is not None:
                return cls(base, inner_d * d, m)
        if d.is_Integer and (divisor := math.gcd(_coefficient_gcd(a), int(d))) > 1:
            reduced = _divide_exactly(a, sympy.Integer(divisor))
            return cls(reduced, sympy.Integer(int(d) // divisor), m)
        return None


def floor_div(a: Expr, b: Expr) -> Expr:
    """`a // b`, an int if both are."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    return to_expr(FloorDiv(sympy.sympify(a), sympy.sympify(b)))


def modular_indexing(a: Expr, d: Expr, m: Expr) -> Expr:
    """`a // d % m`, an int if all are."""
    if isinstance(a, int) and isinstance(d, int) and isinstance(m, int):
        return a // d % m
    return to_expr(ModularIndexing(sympy.sympify(a), sympy.sympify(d), sympy.sympify(m)))


@lru_cache(16384)
def is_nonnegative(expr: Expr) -> bool:
    """Return whether `expr >= 0` is certain, given that size symbols are >= 1 and indices >= 0.

    Each size symbol s is written as 1 + t with t >= 0. If no coefficient is negative then, no value
    of `expr` is negative.
    """
    if isinstance(expr, int):
        return expr >= 0
    terms = sum_of(expr)
    if terms is None:
        return False
    least = {atom: low for atom in atoms_of(terms) if (low := _least(atom)) is not None}
    found = shifted(terms, least) if len(least) == len(atoms_of(terms)) else None
    return found is not None and all(coefficient >= 0 for coefficient in found.values())


def _least(atom: sympy.Expr) -> int | None:
    if atom.is_Symbol and atom.is_positive:
        return 1
    return 0 if atom.is_nonnegative else None
