"""Generators and iterators: made inside, passed in from outside, escaping."""

# The programs under test are written in every style.
# ruff: noqa

from __future__ import annotations

import io
import itertools
from collections import deque
from typing import Any

import pytest
import torch

from tests.unit.bytecode.python.programs import Case, X, case, expressions

TABLE: list[Any] = []


def numbers(n: int) -> Any:
    for i in range(n):
        yield i
    return "done"


def echo() -> Any:
    received = []
    while True:
        value = yield received
        if value is None:
            return received
        received.append(value)


def careful(log: list[Any]) -> Any:
    try:
        log.append("start")
        while True:
            try:
                got = yield len(log)
                log.append(got)
            except ValueError as error:
                log.append(error.args)
    finally:
        log.append("end")


def delegating(log: list[Any]) -> Any:
    result = yield from numbers(2)
    log.append(result)
    inner = yield from echo()
    log.append(inner)
    yield from [10, 11]


def tree(depth: int) -> Any:
    if depth:
        yield from tree(depth - 1)
        yield depth
        yield from tree(depth - 1)


@case(TABLE)
def generators_consumed(x: torch.Tensor) -> Any:
    total = 0
    for i in numbers(4):
        if i == 3:
            break
        total += i
    g = numbers(3)
    return (
        x * total,
        next(g),
        list(g),
        next(g, "empty"),
        sum(i * i for i in range(4)),
        list(tree(3)),
        max(len(w) for w in ("a", "bb")),
        dict((i, i) for i in numbers(2)),
    )


@case(TABLE, X, [])
def generators_sent_to(x: torch.Tensor, log: list[Any]) -> Any:
    g = echo()
    next(g)
    g.send(x)
    g.send(2)
    try:
        g.send(None)
    except StopIteration as stop:
        result = stop.value
    c = careful(log)
    first = next(c), c.send("a"), c.throw(ValueError("thrown")), next(c)
    c.close()
    c.close()
    return result, first, next(c, "closed")


@case(TABLE, X, [])
def generators_delegating(x: torch.Tensor, log: list[Any]) -> Any:
    g = delegating(log)
    seen = [next(g), next(g), next(g), g.send(5), g.send(None), next(g)]
    return x + 1, seen, list(g)


@case(TABLE, X, [])
def generators_thrown_into(x: torch.Tensor, log: list[Any]) -> Any:
    c = careful(log)
    next(c)
    try:
        c.throw(KeyError("k"))
    except KeyError as error:
        log.append(("out", error.args))
    fresh = numbers(2)
    try:
        fresh.throw(RuntimeError, "early")
    except RuntimeError as error:
        log.append(error.args)
    unstarted = careful(log)
    unstarted.close()
    try:
        echo().send(1)
    except TypeError as error:
        log.append(str(error))
    return x + 1, list(fresh)


def failing() -> Any:
    yield 1
    raise ValueError("in generator")


def stopping() -> Any:
    yield 1
    raise StopIteration


@case(TABLE)
def errors_in_generators(x: torch.Tensor) -> Any:
    found = []
    for g in (failing(), stopping()):
        try:
            list(g)
        except Exception as error:
            found.append((type(error), error.args))
    return x + 1, found


@case(TABLE, breaks=None)
def a_generator_escapes(x: torch.Tensor) -> Any:
    g = numbers(5)
    next(g)
    return x + 1, g


@case(TABLE, breaks=None)
def a_fresh_generator_escapes(x: torch.Tensor) -> Any:
    return x + 1, numbers(3), (i * 2 for i in range(3)), (x + i for i in range(2))


@case(TABLE, X, [], breaks=None)
def a_generator_left_inside_a_try(x: torch.Tensor, log: list[Any]) -> Any:
    c = careful([])
    y = x + next(c)
    log.append("after")
    return y + 1


@case(TABLE, breaks=None)
def a_generator_across_a_break(x: torch.Tensor) -> Any:
    g = numbers(5)
    a = next(g)
    print(end="")
    return x + a, list(g)


def scaled(x: Any, n: int) -> Any:
    for i in range(n):
        x = x + i
        yield x


@case(TABLE)
def a_generator_of_tensors(x: torch.Tensor) -> Any:
    return [t * 2 for t in scaled(x, 3)], sum(scaled(x, 2))


# From outside -------------------------------------------------------------------------------------

OUTSIDE = {
    "a list iterator": lambda: iter([1, 2, 3, 4]),
    "a tuple iterator": lambda: iter((1, 2, 3, 4)),
    "a range iterator": lambda: iter(range(1, 5)),
    "a string iterator": lambda: iter("1234"),
    "a dict iterator": lambda: iter({1: "a", 2: "b", 3: "c", 4: "d"}),
    "a set iterator": lambda: iter({1}),
    "a deque iterator": lambda: iter(deque([1, 2, 3, 4])),
    "a generator": lambda: numbers(4),
    "an enumerate": lambda: enumerate([5, 6, 7]),
    "a zip": lambda: zip([1, 2, 3], [4, 5, 6]),
    "a map": lambda: map(str, [1, 2, 3]),
    "a filter": lambda: filter(None, [1, 0, 2, 3]),
    "a reversed": lambda: reversed([1, 2, 3]),
    "a count": lambda: itertools.islice(itertools.count(), 9),
    "a chain": lambda: itertools.chain([1], [2], [3]),
    "a cycle": lambda: itertools.islice(itertools.cycle([1, 2]), 7),
    "a file": lambda: io.StringIO("a\nb\nc\n"),
    "a sentinel": lambda: iter([1, 2, 3].pop, 1),
    "an object": lambda: Outside(),
}


class Outside:
    def __init__(self) -> None:
        self.n = 3

    def __iter__(self) -> Outside:
        return self

    def __next__(self) -> int:
        if not self.n:
            raise StopIteration
        self.n -= 1
        return self.n


def take_one(x: torch.Tensor, it: Any) -> Any:
    return x + 1, next(it)


def take_all(x: torch.Tensor, it: Any) -> Any:
    y = x + 1
    return y, list(it), next(it, "end")


def take_two_in_a_loop(x: torch.Tensor, it: Any) -> Any:
    y, seen = x + 1, []
    for item in it:
        seen.append(item)
        if len(seen) == 2:
            break
    return y * 2, seen


def pass_on(x: torch.Tensor, it: Any) -> Any:
    return x + 1, it


def zip_it(x: torch.Tensor, it: Any) -> Any:
    return x + 1, list(zip([0], it)), [a for a in enumerate(it)]


def exhaust_twice(x: torch.Tensor, it: Any) -> Any:
    a = sum(1 for _ in it)
    b = sum(1 for _ in it)
    return x * a, a, b


WHOLE = {"an object"}  # the others are consumed by Python, where capture breaks

for _name, _make in OUTSIDE.items():
    for _program in (take_one, take_all, take_two_in_a_loop, pass_on, zip_it, exhaust_twice):
        _breaks = 0 if _name in WHOLE or _program is pass_on else None
        _one = Case(_program, (lambda m=_make: (X, m())), None, _breaks, None, ())
        TABLE.append(pytest.param(_one, id=f"{_program.__name__} of {_name}"))


@case(TABLE, lambda: (lambda v: (X, v, iter(v)))([1, 2, 3]), breaks=None)
def an_iterator_and_its_list(x: torch.Tensor, v: list[int], it: Any) -> Any:
    a = next(it)
    v.append(9)
    return x + a, list(it)


@case(TABLE, lambda: (X, [iter([1, 2, 3])] * 2), breaks=None)
def one_iterator_twice(x: torch.Tensor, its: list[Any]) -> Any:
    return x + 1, list(zip(*its)), its[0] is its[1]


@case(TABLE, lambda: (X, {"a": numbers(3)}), breaks=None)
def a_generator_in_a_dict(x: torch.Tensor, d: Any) -> Any:
    return x + next(d["a"]), next(d["a"])


@case(TABLE, X, [1, 2, 3, 4])
def grouping_with_one_iterator(x: torch.Tensor, v: list[int]) -> Any:
    it = iter(v)
    return x + 1, list(zip(it, it)), next(iter([]), None)


@case(TABLE)
def iter_with_a_sentinel(x: torch.Tensor) -> Any:
    values = [3, 2, 1, 0]
    return x + 1, list(iter(values.pop, 3)), values


@case(TABLE)
def iterators_escape(x: torch.Tensor) -> Any:
    it = iter([x, 1, 2])
    next(it)
    d = iter({"a": 1, "b": 2}.items())
    next(d)
    r = iter(range(5))
    next(r)
    return x + 1, it, d, r, iter("ab"), iter((1,)), iter({1}), reversed({"a": 1})


expressions(
    TABLE,
    """
    list(zip([1, 2], "ab", strict=True)), list(zip()), list(zip([1])), dict(zip("ab", "cd")), [*zip(*[(1, 2), (3, 4)])], list(zip([1, 2, 3], [x, x]))
    list(map(lambda a, b: a + b, [1, 2], [3, 4])), list(map(int, "12")), list(filter(lambda v: v > 1, [1, 2])), list(filter(None, "ab")), list(enumerate("ab", start=5))
    any(v > 1 for v in [1, 2]), all(isinstance(v, int) for v in [1, 2]), next(iter([1])), next(iter([]), 3), list(reversed("abc")), [*reversed((1, 2))], sum(map(len, ["a", "bc"]))
    sorted(map(str, [2, 1])), min(enumerate([3, 1]), key=lambda p: p[1]), max((v, i) for i, v in enumerate([1, 5])), list(iter([1])), tuple(i for i in (1, 2)), set(map(abs, [-1, 1])), isinstance(iter([]), type(iter([])))
    """,
    {},
)


@pytest.mark.parametrize("program", TABLE)
def test_iterators(program: Case) -> None:
    program.run()
