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
    "keys": lambda l: iter(dict.fromkeys(l)),
    "values": lambda l: iter(dict(enumerate(l)).values()),
    "items": lambda l: map(sum, iter(dict(enumerate(l)).items())),
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


@case(TABLE, with_list(lambda l: itertools.count(len(l))))
def a_count(x: torch.Tensor, it: Any, items: Any) -> Any:
    return x * next(it) + next(it), it


@case(TABLE, with_list(lambda l: itertools.count(5, -2)))
def a_count_by_steps(x: torch.Tensor, it: Any, items: Any) -> Any:
    return [x + n for n, _ in zip(it, items)], it


@case(TABLE, with_list(lambda l: itertools.count(0.5)), breaks=None)
def a_count_of_floats(x: torch.Tensor, it: Any, items: Any) -> Any:
    return x * next(it) + next(it), it


@case(TABLE)
def a_count_that_goes_on_outside(x: torch.Tensor) -> Any:
    it = itertools.count(x.shape[0], 3)
    return x * next(it) + next(it), it, enumerate(it, 7)


@case(TABLE, with_list(lambda l: (iter(d := dict(enumerate(l))), d)), breaks=None)
def a_dict_that_shrinks_behind_the_iterator(x: torch.Tensor, both: Any, items: Any) -> Any:
    it, d = both
    x = x + next(it)
    del d[2]
    try:
        return x + next(it)
    except RuntimeError as error:
        return x, error.args, d


@case(TABLE, with_list(lambda l: (iter((d := dict(enumerate(l))).items()), d)), breaks=None)
def a_dict_whose_values_change_behind_the_iterator(x: torch.Tensor, both: Any, items: Any) -> Any:
    it, d = both
    for k, v in it:
        x, d[2] = x + v, v
    return x, d


@case(TABLE, breaks=None)
def a_dict_that_grows_while_a_broken_loop_goes_over_it(x: torch.Tensor) -> Any:
    d = {1: 2, 3: 4}
    try:
        for k in d:
            print(end="")
            x = x + k
            d[k + 4] = k
    except RuntimeError as error:
        return x, d, error.args


@case(TABLE, with_list(lambda l: (iter(l), iter(l))))
def a_strict_zip_that_fails_takes_one_element(x: torch.Tensor, both: Any, items: Any) -> Any:
    ended, it = both
    pairs = zip(iter(()), it, strict=True)
    try:
        return x, list(pairs)
    except ValueError as error:
        return x + 1, error.args, list(it)


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


class _Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, layer in enumerate(self.layers):
            x = layer(x) * (i + 1)
            if x.sum() > 0:  # it breaks the graph
                x = x - 1
        return x


def test_a_broken_loop_over_modules_breaks_once_in_each_round() -> None:
    """The iterator over the list's dict was not looked at, so each round broke for it as well."""
    torch.manual_seed(0)
    model = _Layers()
    fast = minitorch2.compile(model, backend="eager")
    with stages.collect() as log:
        for n in (2, 2, 2):
            x = torch.randn(n, 3)
            torch.testing.assert_close(fast(x), model(x))
    breaks = [text.splitlines()[1] for text in log.texts("graph_break")]
    assert len(breaks) <= 6 and all("branches on the value" in text for text in breaks)
    assert not log.counts["frames_as_is"]


def test_a_stale_iterator_over_a_dict_raises_as_in_python() -> None:
    @minitorch2.compile(backend="eager")
    def step(x: torch.Tensor, it: Any) -> Any:
        try:
            return x + next(it, 10)
        except RuntimeError as error:
            return x, error.args

    def stale(size: int, taken: int) -> Any:
        d = dict.fromkeys(range(size), 1)
        it = iter(d.values())
        list(itertools.islice(it, taken))
        d["new"] = 1
        return it

    for size in (1, 0):  # what was compiled for an iterator in order serves no stale one
        assert step(X, iter(dict.fromkeys(range(size), 1).values()))[0] == X[0] + (
            1 if size else 10
        )
        message = ("dictionary changed size during iteration",)
        assert step(X, stale(size, 0))[1] == message
        assert step(X, stale(size, size))[1] == message
