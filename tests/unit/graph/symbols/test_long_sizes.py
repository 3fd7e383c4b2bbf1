"""Sizes whose expressions grow with each step of a program: the algebra of them ends."""

from __future__ import annotations

import pytest
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.graph.symbols import ShapeEnv, expr_of
from minitorch2.graph.symbols.division import floor_div, is_nonnegative, modular_indexing
from minitorch2.graph.symbols.knowledge import Knowledge
from minitorch2.graph.symbols.polynomials import LONGEST, multiply_out, operations_in, products_in
from minitorch2.graph.symbols.ranges import Range, range_of
from minitorch2.testing.assertions import assert_same

ROUNDS = 40
FIXED = "sizes fixed as expressions grew too long"


def sizes(count: int) -> tuple[ShapeEnv, list]:
    env = ShapeEnv()
    return env, [env.new_size(f"s{number}", 5 + number) for number in range(count)]


def windows(x):
    """Each length is written with the one before it three times."""
    for _ in range(ROUNDS):
        x = torch.cat([x, x[: len(x) // 2]])[len(x) // 3 :]
        x = x[:30]
    return x.sin()


def extremes(x):
    n = len(x)
    for _ in range(ROUNDS):
        n = max(n // 2 + 3, 50 - n) + n // (n // 3 + 2)
    return x[:n] * n


def remainders(x):
    n, m = x.shape
    for _ in range(ROUNDS):
        n, m = (n * m) % (m + n // 2 + 5) + 2, n // (m // 2 + 2) + m
    return x * n + m


@pytest.mark.parametrize("program", [extremes, remainders])
def test_a_size_that_grows_with_each_step_becomes_static(program) -> None:
    fast = minitorch2.compile(program, fullgraph=True, dynamic=True, backend="eager")
    with stages.collect() as log:
        for n in (20, 21):
            x = torch.randn(n, 6) if program is remainders else torch.randn(n)
            assert_same(fast(x), program(x))
    assert log.counts[FIXED] == log.counts["graphs"] == 2


def test_windows_of_windows_compile_and_agree_with_eager() -> None:
    fast = minitorch2.compile(windows, fullgraph=True, dynamic=True, backend="eager")
    for n in (20, 23):
        x = torch.randn(n)
        assert_same(fast(x), windows(x))


def test_a_size_that_became_static_says_why() -> None:
    fast = minitorch2.compile(extremes, dynamic=True, backend="eager")
    fast(torch.randn(20))
    assert "operations" in str(minitorch2.shapes(fast))


def test_explain_counts_sizes_that_became_static() -> None:
    x = torch.randn(20)
    minitorch2.maybe_mark_dynamic(x, 0)
    explanation = minitorch2.explain(extremes)(x)
    assert explanation.counts[FIXED] == 1


def test_a_long_size_that_only_data_tells_breaks_the_graph() -> None:
    def counted(x):
        n = int((x > 0).sum())
        for _ in range(9):
            n = n + n // 2
            n = n - n // 3
        return torch.arange(n).sum() + x.sum()

    explanation = minitorch2.explain(counted)(torch.ones(12))
    assert [each.reason for each in explanation.breaks] == ["long-size"]


def test_a_product_of_many_sizes_is_computed_by_python() -> None:
    """Its value needs more than the 64 bits that numbers of a graph have."""

    def program(xs):
        n = 1
        for x in xs:
            n = n * (x.shape[0] + 1)
        return xs[0] * (n % 1009)

    fast = minitorch2.compile(program, fullgraph=True, dynamic=True)
    for first in (3, 4):
        xs = [torch.ones(first + number) for number in range(20)]
        assert_same(fast(xs), program(xs))


def test_sums_divide_their_multiples() -> None:
    _, (a, b, c, d) = sizes(4)
    whole = expr_of(240 * a * b + 720 * c)
    part = expr_of(60 * a * b + 180 * c)
    assert (floor_div(whole, whole), floor_div(whole, part)) == (1, 4)
    assert modular_indexing(whole, 1, part) == 0
    more = multiply_out(whole * expr_of(d)) + 5
    assert floor_div(more, whole) == expr_of(d) + floor_div(5, whole)


def test_a_product_of_sums_has_as_many_products_as_are_counted() -> None:
    _, (a, b, c) = sizes(3)
    for size in ((a + 1) * (b + 2) * (c + a), (a + b + 1) * (a + b), 3 * a):
        factors = expr_of(size).factor()
        assert len(multiply_out(factors).as_ordered_terms()) <= products_in(factors)


def test_a_product_of_too_many_sums_stays_a_product() -> None:
    env, found = sizes(12)
    product = 1
    for size in found:
        product = product * (expr_of(size) + 1)
    assert multiply_out(product) == product
    assert multiply_out(floor_div(product, 7) * (expr_of(found[0]) + 1)).is_Add
    assert range_of(product, env.knowledge.ranges).low == 3**12


def test_expressions_stay_below_the_longest_one() -> None:
    env, (n,) = sizes(1)
    for _ in range(20):
        n = n + n // 2
        assert isinstance(expr_of(n), int) or operations_in(expr_of(n)) <= LONGEST
    assert [str(guard) for guard in env.guards] == ["s0 == 5"]


def test_facts_are_not_tried_beyond_the_budget(monkeypatch) -> None:
    monkeypatch.setattr("minitorch2.graph.symbols.knowledge.MOST_STEPS", 0)
    env, (a, b) = sizes(2)
    assert bool(b * 2 > a)
    with stages.collect() as log:
        assert env.decide((b * 2 >= a).node.expr) is None
    assert log.counts["conditions on sizes that facts were not tried for"] == 1


def test_what_is_known_of_a_symbol_counts_for_later_questions() -> None:
    """Ranges of expressions are kept, and forgotten where a symbol's range changes."""
    known, (_, (a,)) = Knowledge(), sizes(1)
    known.bound(expr_of(a), Range(2, 100))
    assert known.range(expr_of(a * a)) == Range(4, 10_000)
    known.bound(expr_of(a), Range(3, 10))
    assert known.range(expr_of(a * a)) == Range(9, 100)


def test_signs_of_polynomials() -> None:
    _, (a, b) = sizes(2)
    assert is_nonnegative(expr_of(a * b - a))
    assert not is_nonnegative(expr_of(a * b - a - 1))
    assert not is_nonnegative(expr_of(a - b))
