"""Index arithmetic: laws checked by counting through all indices."""

import itertools

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from minitorch2.loopir.expressions import (
    FloorDiv,
    ModularIndexing,
    bounds,
    divide_exactly,
    floor_div,
    index_symbols,
    is_nonnegative,
    modular_indexing,
    simplify,
)
from minitorch2.loopir.handlers.interpreter import evaluate
from minitorch2.loopir.layout import contiguous_strides
from minitorch2.loopir.views import reshape_reindex

I0, I1, I2 = INDEX = index_symbols("i", 3)
S0, S1 = (sympy.Symbol(f"s{i}", positive=True, integer=True) for i in range(2))
SIZES = (4, 6, 5)
RANGES = tuple(zip(INDEX, SIZES, strict=True))


def values(expr):
    return [
        int(evaluate(expr, dict(zip(INDEX, position, strict=True))))
        for position in itertools.product(*map(range, SIZES))
    ]


def expressions():
    """Index expressions that are never negative, with divisions by positive numbers."""
    leaves = st.sampled_from((*INDEX, 0, 1, 2, 5))
    numbers = st.integers(1, 12)

    def grow(inner):
        return st.one_of(
            st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
            st.tuples(inner, numbers).map(lambda p: p[0] * p[1]),
            st.tuples(inner, numbers).map(lambda p: floor_div(p[0], p[1])),
            st.tuples(inner, numbers, numbers).map(lambda p: modular_indexing(*p)),
        )

    return st.recursive(leaves, grow, max_leaves=6)


@settings(max_examples=60, deadline=None)
@given(expressions(), st.integers(1, 12), st.integers(1, 12))
def test_built_expressions_mean_what_python_says(inner, d, m):
    expected = np.array(values(inner))
    assert values(floor_div(inner, d)) == list(expected // d)
    assert values(modular_indexing(inner, d, m)) == list(expected // d % m)


@pytest.mark.parametrize("rest", range(-5, 6))
def test_a_product_and_a_rest_are_divided(rest):
    """Sizes are rounded up in this way: ``(s0 * s1 + s1 - 1) // s1`` is ``s0``."""
    found = sympy.sympify(floor_div(S0 * S1 + rest, S1))
    for a, b in itertools.product(range(6, 9), range(1, 9)):
        assert found.subs({S0: a, S1: b}) == (a * b + rest) // b
    assert floor_div(S0 * S1 + S1 - 1, S1) == S0


@settings(max_examples=100, deadline=None)
@given(expressions())
def test_simplify_keeps_every_value(expr):
    assert values(simplify(expr, RANGES)) == values(expr)


@settings(max_examples=60, deadline=None)
@given(expressions())
def test_bounds_hold(expr):
    limits = bounds(expr, RANGES)
    if limits is not None:
        assert limits[0] <= min(values(expr)) and max(values(expr)) <= limits[1]


@settings(max_examples=60, deadline=None)
@given(expressions())
def test_dividends_stay_non_negative(expr):
    """So a language whose division rounds towards zero computes the same."""
    simple = simplify(expr, RANGES)
    parts = [] if isinstance(simple, int) else simple.atoms(FloorDiv, ModularIndexing)
    for part in parts:
        assert min(values(part.args[0])) >= 0, part


@pytest.mark.parametrize(
    ("expr", "ranges", "expected"),
    [
        (FloorDiv(I0 * S1 + I1, S1), ((I0, S0), (I1, S1)), I0),
        (ModularIndexing(I0 * S1 + I1, 1, S1), ((I0, S0), (I1, S1)), I1),
        (S1 * FloorDiv(I0, S1) + ModularIndexing(I0, 1, S1), ((I0, S0 * S1),), I0),
        (FloorDiv(4 * I0 + I1, 8), ((I0, 10), (I1, 4)), FloorDiv(I0, 2)),
        (8 * FloorDiv(I0, 8) + ModularIndexing(I0, 1, 8), ((I0, 64),), I0),
        (FloorDiv(ModularIndexing(I0, 2, 768), 64), ((I0, 9999),), ModularIndexing(I0, 128, 12)),
        (
            1536 * FloorDiv(I0, 1536)
            + 128 * FloorDiv(ModularIndexing(I0, 2, 768), 64)
            + ModularIndexing(I0, 1, 128),
            ((I0, 24576),),
            I0,
        ),
        (FloorDiv(I0, 8), ((I0, 8),), 0),
        (ModularIndexing(I0, 4, 2), ((I0, 8),), FloorDiv(I0, 4)),
        (FloorDiv(FloorDiv(I0, 2), 3), ((I0, 100),), FloorDiv(I0, 6)),
    ],
)
def test_simplified_forms(expr, ranges, expected):
    assert simplify(expr, ranges) == expected


def test_exact_division():
    assert divide_exactly(6 * S0, 3) == 2 * S0
    assert divide_exactly(S0 * S1, S1) == S0
    assert divide_exactly(S0 + 1, 2) is None
    assert divide_exactly(7, 2) is None
    assert divide_exactly(2 * S0 + 4 * S1, 2) == S0 + 2 * S1


def test_signs_of_sizes():
    assert is_nonnegative(S0 - 1) and is_nonnegative(S0 * S1 - S0) and is_nonnegative(3)
    assert not is_nonnegative(S0 - 2) and not is_nonnegative(S0 - S1) and not is_nonnegative(-1)


def factorizations(total):
    if total == 1:
        return [(), (1,)]
    found = [(total,)]
    for first in range(1, total):
        if total % first == 0 and first > 1:
            found += [(first, *rest) for rest in factorizations(total // first) if rest]
    return [*found, (total, 1), (1, total)]


@pytest.mark.parametrize("total", [1, 6, 12])
def test_reshape_is_row_major_for_all_sizes(total):
    for old, new in itertools.product(factorizations(total), repeat=2):
        symbols = index_symbols("i", len(new))
        inner = reshape_reindex(old, new)(symbols)
        strides = contiguous_strides(old)
        position = sum(i * s for i, s in zip(inner, strides, strict=True))
        simple = simplify(sympy.sympify(position), tuple(zip(symbols, new, strict=True)))
        expected = sum(i * s for i, s in zip(symbols, contiguous_strides(new), strict=True))
        kept = {symbol: 0 for symbol, n in zip(symbols, new, strict=True) if n == 1}
        assert sympy.sympify(simple).subs(kept) == sympy.sympify(expected).subs(kept), (old, new)


def test_digits_of_a_number_are_joined():
    (x,) = index_symbols("x", 1)
    whole = ModularIndexing(x, 1, 768)
    digits = ModularIndexing(x, 1, 64) + 64 * ModularIndexing(x, 64, 12)
    upper = 768 * ModularIndexing(x, 768, 3)
    ranges = ((x, 2304 * 16),)
    joined = simplify(ModularIndexing(x, 1, 2304), ranges)
    assert simplify(digits + upper, ranges) == simplify(whole + upper, ranges) == joined


def test_a_sum_divides_its_multiples():
    """Half a batch of any size, as `chunk` makes it: what is divided by it stays a short text."""
    half = S0 - floor_div(S0 + 1, 2)
    assert floor_div(6 * half, half) == 6
    assert modular_indexing(4 * half, 1, 2 * half) == 0
    assert floor_div(6 * half, 2 * half) == 3
    assert floor_div(half, 2 * half) != 0  # no multiple
