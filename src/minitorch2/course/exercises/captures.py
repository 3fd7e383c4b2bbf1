"""Exercises of the chapter on four ways to capture."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from minitorch2 import jit
from minitorch2.config import patch
from minitorch2.course.exercise import exercise
from minitorch2.errors import TraceError

PAGE = "layers/captures"
CALLS: list[int] = []


def branches(x: Tensor) -> Tensor:
    """Return one of two sums; data decide."""
    return x + 1 if x.sum() > 0 else x - 1


def counts(x: Tensor) -> Tensor:
    """Return a product with the number of calls so far."""
    CALLS.append(1)
    return x * len(CALLS)


def halves(x: Tensor) -> Tensor:
    """Return the first half."""
    return x[: x.shape[0] // 2]


def refused_while_recording() -> set[str]:
    """Return the names of the three functions that have no trace at all."""
    found = set()
    for function in (branches, counts, halves):
        try:
            with patch(backend="eager"):
                jit.trace(function, torch.ones(4))
        except TraceError:
            found.add(function.__name__)
    return found


@exercise(
    PAGE,
    "look",
    question="""
        Which of `branches`, `counts` and `halves` does a trace of ours refuse while it is
        recorded? Set `refused`, a set of names. What becomes of the others?
    """,
    stub="""
        from minitorch2.course.exercises.captures import branches, counts, halves

        refused = ...
    """,
    hints=("`minitorch2.jit.trace(function, example)` raises a TraceError.",),
    solution="""
        from minitorch2.course.exercises.captures import refused_while_recording

        refused = refused_while_recording()
    """,
)
def name_the_refused(refused: set[str]) -> None:
    """Trace all three."""
    assert set(refused) == refused_while_recording(), f"{refused} is not right: trace each"


@exercise(
    PAGE,
    "change",
    question="""
        A trace of `program` holds for one number of rows, since Python counts them. Change it
        so that one trace holds for all numbers of rows.
    """,
    stub="""
        def program(x):
            total = x[0] * 0
            for i in range(x.shape[0]):
                total = total + x[i] * i
            return total
    """,
    hints=(
        "`torch.arange(x.shape[0])` are the numbers of the rows as a tensor.",
        "A column of them times `x`, summed over the rows.",
    ),
    solution="""
        import torch


        def program(x):
            numbers = torch.arange(x.shape[0], dtype=x.dtype)
            return (x * numbers[:, None]).sum(0)
    """,
)
def one_trace_for_all_sizes(program: Callable[[Tensor], Tensor]) -> None:
    """Trace it at three rows, and call it at others."""
    with patch(backend="eager"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = jit.trace(program, torch.ones(3, 2))
        for rows in (3, 2, 5, 8):
            x = torch.randn(rows, 2)
            expected = sum(x[i] * i for i in range(rows))
            torch.testing.assert_close(program(x), expected)
            torch.testing.assert_close(traced(x), expected)


@exercise(
    PAGE,
    "build",
    question="""
        Write `trace(function, example)` for functions of one number that use `+`, `*` and
        branch on `>`. It calls the function once, with an object of yours, and returns a
        function that repeats the recorded operations. Where a comparison comes out otherwise
        than in the example, that raises a `ValueError`.
    """,
    stub="""
        def trace(function, example):
            result = function(example)
            return lambda number: result
    """,
    hints=(
        "The object knows its number in the example, and its place in a list of operations.",
        "`__gt__` records the comparison and its outcome, and returns a bool.",
    ),
    solution="""
        import operator


        def trace(function, example):
            record = []

            class Proxy:
                def __init__(self, number, place):
                    self.number, self.place = number, place

                def apply(self, operation, other):
                    operand = other.number if isinstance(other, Proxy) else other
                    result = operation(self.number, operand)
                    record.append((operation, self, other, result))
                    return result

                def __add__(self, other):
                    return Proxy(self.apply(operator.add, other), len(record))

                def __mul__(self, other):
                    return Proxy(self.apply(operator.mul, other), len(record))

                def __gt__(self, other):
                    return self.apply(operator.gt, other)

            end = function(Proxy(example, 0))

            def run(number):
                values = {0: number}
                for place, (operation, left, right, seen) in enumerate(record, 1):
                    operand = values[right.place] if isinstance(right, Proxy) else right
                    values[place] = operation(values[left.place], operand)
                    if operation is operator.gt and values[place] != seen:
                        raise ValueError("the trace does not hold here")
                return values[end.place]

            return run
    """,
)
def trace_with_checks(trace: Callable[..., Callable[[int], int]]) -> None:
    """Trace a function with two branches, and count its calls."""
    calls: list[Any] = []

    def program(x: Any) -> Any:
        calls.append(x)
        y = x * x + 1
        if y > 10:
            y = y * 2
        return y + x

    traced = trace(program, 5)
    assert len(calls) == 1, f"the function was called {len(calls)} times, not once"
    for number in (5, 4, -7):
        found, expected = traced(number), program(number)
        assert found == expected, f"for {number} it is {expected}, not {found}"
    calls.clear()
    try:
        found = traced(2)
    except ValueError:
        assert not calls, "the trace must not call the function again"
        return
    raise AssertionError(f"2 goes another way than 5, and the trace gives {found}")


@exercise(
    PAGE,
    "build",
    question="""
        Write `written(function, argument, world)`: call the function, and return the names in
        the dict `world` whose values are others afterwards, or are new or gone. Lists and
        dicts may have changed inside.
    """,
    stub="""
        def written(function, argument, world):
            before = dict(world)
            function(argument)
            return {name for name in world if world[name] is not before[name]}
    """,
    hints=("`copy.deepcopy` keeps what was inside.",),
    solution="""
        import copy


        def written(function, argument, world):
            before, nothing = copy.deepcopy(world), object()
            function(argument)
            names = {*before, *world}
            return {n for n in names if world.get(n, nothing) != before.get(n, nothing)}
    """,
)
def find_writes(written: Callable[..., set[str]]) -> None:
    """Change numbers, lists, and dicts inside of lists."""
    world: dict[str, Any] = {"n": 1, "rows": [1], "deep": [{"a": 1}], "same": [2], "gone": 3}

    def program(x: int) -> int:
        world["n"] += x
        world["rows"].append(x)
        world["deep"][0]["a"] = x
        world["new"] = x
        del world["gone"]
        return x

    found = set(written(program, 7, world))
    expected = {"n", "rows", "deep", "new", "gone"}
    assert found == expected, f"{sorted(expected)} were written, not {sorted(found)}"
