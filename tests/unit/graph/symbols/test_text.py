"""The text of size expressions is the Python that computes them."""

import math

import pytest
import sympy

from minitorch2.codegen.common import print_expr as print_for_kernels
from minitorch2.graph.symbols import print_condition, print_expr, size_symbol
from minitorch2.graph.symbols.conditions import all_of, any_of, compare
from minitorch2.graph.symbols.division import floor_div, modular_indexing
from minitorch2.graph.symbols.floats import (
    FloatDifference,
    FloatPower,
    FloatProduct,
    SquareRoot,
    ToFloat,
    TrueDivision,
    Truncated,
    value_of,
)

A, B, C = map(size_symbol, "abc")
VALUES = {A: 37, B: 5, C: 3}
EXPRESSIONS = [
    A - B * 2 + 1,
    floor_div(A, B * C),  # was printed as a // b*c
    modular_indexing(A, 1, B * C),
    modular_indexing(A, B, C + 1),
    floor_div(floor_div(A, 4) * B, C),
    (A + B + 1) ** 2 * C,  # was printed as (a + b + 1*a + b + 1)*c for kernels
    sympy.Max(A - 40, B, C),
    sympy.Min(A - 40, B, C) + 1,
    Truncated(TrueDivision(A, B)) + 1,
    A**3 - B**2,
    TrueDivision(A, 2 * B),  # was printed as (a / 2*b)
    FloatDifference(ToFloat(A), B + C),
    FloatPower(FloatProduct(A - B, 0.5), 2),
]


@pytest.mark.parametrize("expr", EXPRESSIONS, ids=str)
@pytest.mark.parametrize("printer", [print_expr, print_for_kernels])
def test_text_evaluates_to_the_value(printer, expr) -> None:
    scope = {symbol.name: value for symbol, value in VALUES.items()}
    assert eval(printer(expr), {"math": math}, scope) == value_of(expr, VALUES)


def test_symbols_stand_for_other_text() -> None:
    names = {A: "x.shape[0]", B: "(y.shape[1] - 2)"}
    assert print_expr(floor_div(A, B), names) == "(x.shape[0] // (y.shape[1] - 2))"


def test_conditions() -> None:
    condition = all_of([compare(">", A + B, 2), any_of([compare("==", A, 3), compare("!=", B, 4)])])
    assert print_condition(condition) == "(a + b > 2) and ((a == 3) or (b != 4))"


def test_floats_keep_their_digits() -> None:
    assert print_expr(TrueDivision(A, 1 / 3)) == "(a / 0.3333333333333333)"
    assert print_expr(SquareRoot(A)) == "math.sqrt(a)"
