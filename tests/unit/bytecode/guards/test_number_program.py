"""Conditions on sizes and numbers in the guard machine give the answers of Python."""

from __future__ import annotations

import math
from typing import Any

import pytest
import sympy
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import minitorch2
from minitorch2.bytecode.dispatch import dispatcher_of
from minitorch2.bytecode.guards import ShapeCondition
from minitorch2.bytecode.guards.guard_function import compile_guards
from minitorch2.bytecode.guards.guard_program import write_program
from minitorch2.bytecode.guards.number_program import can_compute
from minitorch2.bytecode.guards.sources import LocalSource
from minitorch2.graph.symbols.conditions import (
    RELATIONS,
    Condition,
    all_of,
    any_of,
    compare,
    opposite,
)
from minitorch2.graph.symbols.division import floor_div, modular_indexing
from minitorch2.graph.symbols.floats import FloatSymbol, TrueDivision

A, B = (sympy.Symbol(name, integer=True) for name in "ab")
F = FloatSymbol("f")


def guarded(a: Any, b: Any, f: Any) -> None:
    """The function whose parameters are guarded."""


def guards_of(condition: Condition) -> Any:
    places = ((A, LocalSource("a")), (B, LocalSource("b")), (F, LocalSource("f")))
    guard = ShapeCondition(condition, tuple(p for p in places if p[0] in condition.symbols))
    return compile_guards([guard], guarded, {}).bind(guarded)


expressions = st.recursive(
    st.one_of(st.integers(-3, 20), st.sampled_from([A, B])),
    lambda part: st.one_of(
        st.builds(lambda x, y: x + y, part, part),
        st.builds(lambda x, y: x * y, part, part),
        st.builds(sympy.Max, part, part),
        st.builds(sympy.Min, part, part),
        st.builds(lambda x, d: floor_div(sympy.sympify(x), d), part, st.integers(1, 5)),
        st.builds(lambda x, d: modular_indexing(sympy.sympify(x), 1, d), part, st.integers(1, 5)),
    ),
    max_leaves=5,
)
relations = st.sampled_from(sorted(RELATIONS))
numbers = st.one_of(st.integers(-30, 30), st.sampled_from([2**40, -(2**62), 2**63 - 1, 2**70]))
floats = st.floats(allow_nan=True, width=64)
conditions = st.recursive(
    st.one_of(
        st.builds(compare, relations, expressions, expressions),
        st.builds(compare, relations, st.just(F), st.one_of(floats, st.just(F))),
    ),
    lambda part: st.one_of(
        part.map(opposite),
        st.lists(part, min_size=2, max_size=3).map(all_of),
        st.lists(part, min_size=2, max_size=3).map(any_of),
    ),
    max_leaves=4,
)


@given(conditions, st.lists(st.tuples(numbers, numbers, floats), min_size=1, max_size=4))
@example(opposite(compare("<", F, 2.0)), [(0, 0, math.nan), (0, 0, 1.0), (0, 0, 2.0)])
@example(compare("==", F, F), [(0, 0, math.nan), (0, 0, -1.0)])
@example(compare(">", A * B, 0), [(2**62, 4, 0.0), (-1, -1, 0.0)])
@settings(max_examples=300, deadline=None)
def test_the_machine_answers_as_python_does(
    condition: Condition, calls: list[tuple[int, int, float]]
) -> None:
    if isinstance(condition, bool):
        return
    assert can_compute(condition)
    bound = guards_of(condition)
    for call in calls:
        if bound.fast_check(*call) != bound.check(*call):
            # Numbers beyond 64 bits fail the guard: the call is compiled for itself.
            assert max(abs(call[0]), abs(call[1])) >= 2**40
            assert not bound.fast_check(*call)


def test_what_computes_in_floating_point_is_asked_in_python() -> None:
    condition = compare(">", TrueDivision(A, 2), 1.5)
    assert not can_compute(condition)
    assert guards_of(condition).fast_check(4, 0, 0.0)
    assert not guards_of(condition).fast_check(3, 0, 0.0)


def test_a_size_that_is_read_twice_is_loaded_once() -> None:
    place = (A, LocalSource("a"))
    guards = [ShapeCondition(compare(relation, A, 7), (place,)) for relation in ("<", "!=")]
    both = write_program(guards, guarded.__code__, {}).program
    one = write_program(guards[:1], guarded.__code__, {}).program
    alone = write_program(guards[1:], guarded.__code__, {}).program
    shared, ends = 4 * 8 * 2, 4 * 8  # the number and the constant 7; HOLDS and the header's words
    assert len(both) == len(one) + len(alone) - shared - 2 * ends


@pytest.mark.parametrize("rank", range(1, 7))
def test_contiguity_is_read_in_place(rank: int) -> None:
    fast = minitorch2.compile(lambda x: x + 1, backend="eager", dynamic=True)
    fast(torch.zeros([2] * (rank - 1) + [3]))
    dispatcher = dispatcher_of(fast)
    bound = dispatcher.cache.compiled[0].guards.bind(dispatcher.function)
    shape = [3, 2, 2, 2, 2, 4][-rank:]
    others = [
        torch.zeros(shape),
        torch.zeros(shape).transpose(0, -1),
        torch.zeros([*shape[:-1], 2 * shape[-1]])[..., ::2],
        torch.zeros([0, *shape[1:]]),
        torch.zeros([*shape[:-1], 1]).expand(shape),
    ]
    for other in others:
        assert bound.fast_check(other) == bound.check(other)


def test_no_guard_on_sizes_calls_python() -> None:
    def f(x: torch.Tensor, y: torch.Tensor, n: int, k: float) -> torch.Tensor:
        z = torch.cat([x, y])
        if z.shape[0] % n == 0 and z.shape[0] > 2 * n and k <= 2:
            return z.reshape(z.shape[0] // 2, -1) * n * k
        return z.t()

    fast = minitorch2.compile(f, backend="eager", dynamic=True)
    for n, k in ((2, 0.5), (3, 1.5)):
        fast(torch.ones(6, 4), torch.ones(12, 4).t().contiguous().t(), n, k)
    guards = dispatcher_of(fast).cache.compiled[-1].guards.guards
    conditions = [guard.condition for guard in guards if isinstance(guard, ShapeCondition)]
    assert len(conditions) > 5
    assert all(map(can_compute, conditions))
