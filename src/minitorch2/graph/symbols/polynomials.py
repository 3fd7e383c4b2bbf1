"""Sums of products as dictionaries, and the counts that keep the algebra of sizes short.

    Sum     ::= {Product: coefficient}        coefficient is an int
    Product ::= {(atom, exponent), ...}       an atom is a symbol or a function of expressions

Two kinds of programs write sizes that grow without an end::

    x = torch.cat([x, x[: len(x) // 2]])      n -> n + n // 2: twice the text with each step
    (a + 1) * (b + 1) * (c + 1) * ...         2 ** k products

So steps are counted, never seconds: the same program gives the same graph on every machine. Beyond
`MOST_PRODUCTS` a product stays as it is written; a comparison of two such sizes may then need a
guard that it would not need otherwise. Beyond `LONGEST` operations `ShapeEnv` makes a size static.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

import sympy

from minitorch2 import stages

Product: TypeAlias = frozenset[tuple[Any, int]]
Sum: TypeAlias = Mapping[Product, int]

MOST_PRODUCTS: Final = 512
"""So many products may a product of sums become when it is multiplied out."""

MOST_IN_SIZES: Final = 32
"""The same for the size of a tensor, which guards and kernels repeat."""

LONGEST: Final = 300
"""So many operations may a size have."""

_CACHED: Final = 65_536


@lru_cache(_CACHED)
def operations_in(expr: Any) -> int:
    """Return the number of nodes of the expression when it is written out."""
    return 1 + sum(map(operations_in, expr.args))


@lru_cache(_CACHED)
def products_in(expr: Any) -> int:
    """Return the number of products of the expression multiplied out; a function counts as one."""
    if expr.is_Add:
        return sum(map(products_in, expr.args))
    if expr.is_Mul:
        return math.prod(map(products_in, expr.args))
    if expr.is_Pow and expr.exp.is_Integer and expr.exp > 0:
        return math.comb(products_in(expr.base) + int(expr.exp) - 1, int(expr.exp))
    return 1


@lru_cache(_CACHED)
def _widest(expr: Any) -> int:
    """Return the most products that the expression or an argument of its functions has."""
    return max([products_in(expr), *map(_widest, expr.args)])


def multiply_out(expr: Any, most: int = MOST_PRODUCTS) -> Any:
    """Multiply out, unless the result has more than `most` products: then return it unchanged."""
    if not isinstance(expr, sympy.Expr):
        return expr
    if _widest(expr) <= most:
        return sympy.expand(expr)
    stages.count("size expressions left as products")
    if products_in(expr) > most:
        return expr
    functions = [part for part in expr.atoms(sympy.Function) if _widest(part) > most]
    names = {part: sympy.Dummy(integer=True) for part in functions}
    outside = sympy.expand(expr.xreplace(names))
    return outside.xreplace({name: part for part, name in names.items()})


@lru_cache(_CACHED)
def sum_of(expr: Any) -> Sum | None:
    """Return a sum's products with their coefficients; None if one is not an integer."""
    found: dict[Product, int] = {}
    for term in sympy.Add.make_args(expr):
        coefficient, rest = term.as_coeff_Mul()
        product = _product_of(rest)
        if product is None or not coefficient.is_Integer:
            return None
        found[product] = found.get(product, 0) + int(coefficient)
    return found


def _product_of(expr: Any) -> Product | None:
    powers = {} if expr == 1 else expr.as_powers_dict()
    if not all(exponent.is_Integer and exponent > 0 for exponent in powers.values()):
        return None
    return frozenset((atom, int(exponent)) for atom, exponent in powers.items())


def add(left: Sum, right: Sum, factor: int) -> Sum:
    """``left + factor * right``."""
    total = dict(left)
    for product, coefficient in right.items():
        total[product] = total.get(product, 0) + factor * coefficient
    return {product: number for product, number in total.items() if number}


def shifted(terms: Sum, least: Mapping[Any, int]) -> Sum | None:
    """Write each atom of a sum as its least value plus a rest, which has the atom's name.

    Return None if the new sum has more than `MOST_PRODUCTS` products.

        s*t with both at least 2   -->   4 + 2*s + 2*t + s*t
    """
    if sum(math.prod(n + 1 for _, n in product) for product in terms) > MOST_PRODUCTS:
        return None
    total: dict[Product, int] = {}
    for product, coefficient in terms.items():
        for rest, factor in _shifted_product(product, least).items():
            total[rest] = total.get(rest, 0) + factor * coefficient
    return {product: number for product, number in total.items() if number}


def _shifted_product(product: Product, least: Mapping[Any, int]) -> dict[Product, int]:
    found: dict[Product, int] = {frozenset(): 1}
    for atom, exponent in product:
        powers = {
            n: math.comb(exponent, n) * least[atom] ** (exponent - n) for n in range(exponent + 1)
        }
        found = {
            rest | ({(atom, n)} if n else set()): number * power
            for rest, number in found.items()
            for n, power in powers.items()
            if power
        }
    return found


def atoms_of(terms: Sum) -> dict[Any, None]:
    """Return the atoms of a sum, symbols and functions, in the order of their first use."""
    return dict.fromkeys(atom for product in terms for atom, _ in product)
