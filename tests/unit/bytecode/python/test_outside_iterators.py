"""Iterators that come from outside are looked at, and advanced as far as the program did."""

# The programs under test are written in every style.
# ruff: noqa

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import minitorch2
from minitorch2 import stages
from tests.unit.bytecode.python.programs import Case, X, case

TABLE: list[Any] = []


def with_list(make: Any) -> Any:
    def arguments() -> Any:
        items = [1.0, 2.0, 3.0]
        return X.clone(), make(items), items

    return arguments


KINDS = {
    "list": lambda l: iter(l),
    "tuple": lambda l: iter(tuple(l)),
    "range": lambda l: iter(range(1, 4)),
    "str": lambda l: map(ord, iter("abc")),
    "reversed": lambda l: reversed(l),
    "zip": lambda l: map(sum, zip(l, range(5))),
    "map": lambda l: map(lambda v: v + 1, l),
    "filter": lambda l: filter(lambda v: v != 2, l),
    "enumerate": lambda l: map(sum, enumerate(l, 5)),
    "nested": lambda l: (i * a + b for i, (a, b) in enumerate(zip(l, l))),
}


def all_of_it(x: torch.Tensor, it: Any, items: Any) -> Any:
    for v in it:
        x = x * v
    return x, next(it, "ended"), items


def two_of_it(x: torch.Tensor, it: Any, items: Any) -> Any:
    return x * next(it) + next(it), it


def none_of_it(x: torch.Tensor, it: Any, items: Any) -> Any:
    return x + 1, iter(it) is it, it


for name, make in KINDS.items():
    whole = name != "nested"
    for program in (all_of_it, two_of_it, none_of_it):
        if name == "enumerate" and program is not none_of_it:
            continue
        one = Case(program, with_list(make), None, 0 if whole else None, None, ())
        TABLE.append(pytest.param(one, id=f"{program.__name__}-{name}"))


@case(TABLE, with_list(lambda l: enumerate(l, 5)))
def an_enumerate(x: torch.Tensor, it: Any, items: Any) -> Any:
    i, v = next(it)
    return x * i + v, it


@case(TABLE, with_list(lambda l: enumerate(zip(l, range(2)))))
def an_enumerate_over_a_zip_that_ends(x: torch.Tensor, it: Any, items: Any) -> Any:
    return [x * i + a * b for i, (a, b) in it], next(it, None), items


@case(TABLE, with_list(lambda l: SimpleNamespace(it=iter(l))))
def an_attribute(x: torch.Tensor, owner: Any, items: Any) -> Any:
    return x * next(owner.it) + next(owner.it), owner


@case(TABLE, with_list(lambda l: (lambda it: zip(it, it))(iter(l))))
def pairs_of_one_iterator(x: torch.Tensor, it: Any, items: Any) -> Any:
    return [x * a + b for a, b in it], it


@case(TABLE, with_list(lambda l: zip(l, l[1:], strict=True)))
def a_strict_zip(x: torch.Tensor, it: Any, items: Any) -> Any:
    y = x + 1
    try:
        return [y * a + b for a, b in it]
    except ValueError as error:
        return y, error.args


@case(TABLE, with_list(iter))
def a_list_that_grows_behind_the_iterator(x: torch.Tensor, it: Any, items: Any) -> Any:
    x = x * next(it)
    items.insert(0, 7.0)
    return x, it, items


@case(TABLE, with_list(iter), breaks=None, code="changed-while-iterated")
def a_list_that_grows_before_the_iterator(x: torch.Tensor, it: Any, items: Any) -> Any:
    items.insert(0, 7.0)
    return x * next(it), it, items


@case(TABLE, with_list(iter))
def an_ended_iterator_stays_ended(x: torch.Tensor, it: Any, items: Any) -> Any:
    total = sum(it)
    items.append(9.0)
    return x * total, it, items


@case(TABLE, lambda: (X.clone(), [1, 2]), breaks=None)
def a_list_that_grows_while_a_broken_loop_goes_over_it(x: torch.Tensor, items: Any) -> Any:
    for v in items:
        print(end="")
        x = x + v
        if len(items) < 6:
            items.append(v + 1)
    return x, items


@case(TABLE, breaks=None)
def a_new_list_that_grows_while_a_broken_loop_goes_over_it(x: torch.Tensor) -> Any:
    items = [1, 2]
    for v in items:
        print(end="")
        x = x + v
        if len(items) < 6:
            items.append(v + 1)
    return x, items


@case(TABLE, breaks=None)
def a_list_that_shrinks_while_a_broken_loop_goes_over_it(x: torch.Tensor) -> Any:
    items = [1, 2, 3, 4]
    for v in reversed(items):
        print(end="")
        x = x + v
        items.remove(v)
    return x, items


@pytest.mark.parametrize("program", TABLE)
def test_outside_iterators(program: Case) -> None:
    program.run()


def test_one_code_serves_each_step_of_an_iterator() -> None:
    @minitorch2.compile(backend="eager")
    def step(x: torch.Tensor, batches: Any) -> Any:
        return x + next(batches)

    batches = iter([torch.ones(4) * i for i in range(20)])
    with stages.collect() as log:
        results = [step(X, batches) for _ in range(20)]
    assert log.counts["graphs"] == 1
    assert all(torch.equal(result, X + i) for i, result in enumerate(results))
    with pytest.raises(StopIteration):
        step(X, batches)


def test_an_iterator_is_not_taken_for_another() -> None:
    @minitorch2.compile(backend="eager")
    def step(x: torch.Tensor, one: Any, other: Any) -> Any:
        return x + next(one) * 10 + next(other)

    assert step(X, iter([1, 2]), iter([3, 4]))[0] == 13
    both = iter([1, 2])
    assert step(X, both, both)[0] == 12


def test_a_loop_with_a_break_over_many_elements_compiles_a_few_times() -> None:
    @minitorch2.compile(backend="eager")
    def loop(x: torch.Tensor, items: Any) -> Any:
        for i, item in enumerate(items):
            x = x + i * item
            print(end="")
        return x

    items = [i * 0.5 for i in range(40)]
    with stages.collect() as log:
        result = loop(X, items)
    assert torch.equal(result, X + sum(i * item for i, item in enumerate(items)))
    assert log.counts["graphs"] <= 4 and not log.counts["frames_as_is"]
