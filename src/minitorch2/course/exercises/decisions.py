"""Exercises of the chapter on decisions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from minitorch2 import stages
from minitorch2.api import compiler
from minitorch2.course.exercise import exercise

PAGE = "decisions"


def blocks(x: Tensor, times: int) -> Tensor:
    """Return a tensor that went through equal blocks, with a graph break behind each."""
    for _ in range(times):
        x = torch.relu(x + 1)
        sys.stdout.write("")
    return x


def graphs_for(times: int) -> int:
    """Return how many graphs are made for this number of blocks."""
    with stages.collect(texts=False) as log:
        compiler.compile(blocks, backend="eager")(torch.ones(2), times)
    return log.counts["graphs"]


@exercise(
    PAGE,
    "look",
    question="""
        Each turn of the loop of `blocks` ends with a graph break. How many graphs are made for
        3 turns, and how many for 6? Set `three` and `six`.
    """,
    stub="""
        from minitorch2.course.exercises.decisions import blocks

        three = ...
        six = ...
    """,
    hints=("A continuation of a place in your function is made once, however often it is met.",),
    solution="""
        from minitorch2.course.exercises.decisions import graphs_for

        three, six = graphs_for(3), graphs_for(6)
    """,
)
def count_graphs(three: int, six: int) -> None:
    """Count them."""
    found = graphs_for(3), graphs_for(6)
    assert (three, six) == found, f"{three} and {six} are not both right"


Entry = tuple[Callable[[Any], bool], Callable[[Any], Any]]


@exercise(
    PAGE,
    "change",
    question="""
        Entries are pairs of a guard and a function. `dispatch(entries, argument)` calls the
        first one whose guard holds, always in the order in which they were compiled. Change it
        so that the entry that has served a call is asked first by the next one.
    """,
    stub="""
        def dispatch(entries, argument):
            for guard, function in entries:
                if guard(argument):
                    return function(argument)
            raise LookupError("compile it")
    """,
    hints=("`entries.insert(0, entries.pop(place))` moves an entry to the front.",),
    solution="""
        def dispatch(entries, argument):
            for place, (guard, function) in enumerate(entries):
                if guard(argument):
                    entries.insert(0, entries.pop(place))
                    return function(argument)
            raise LookupError("compile it")
    """,
)
def last_used_first(dispatch: Callable[[list[Entry], Any], Any]) -> None:
    """Count how many guards are asked in a row of equal calls."""
    asked: list[int] = []

    def entry(number: int) -> Entry:
        def guard(argument: int) -> bool:
            asked.append(number)
            return argument == number

        return guard, lambda argument: argument * 10

    entries = [entry(number) for number in range(4)]
    assert [dispatch(entries, 3) for _ in range(5)] == [30] * 5, "the results are wrong"
    assert len(asked) == 4 + 4, f"five calls have asked {len(asked)} guards, not 8"
    try:
        dispatch(entries, 9)
    except LookupError:
        return
    raise AssertionError("no guard holds for 9: that is a LookupError")


@exercise(
    PAGE,
    "build",
    question="""
        Write `attempts(steps, supported)`: an evaluator that starts again instead of rolling
        back. It runs the steps in order; a step that is not supported makes it start again
        with a break there, at which it then stops, and the next attempt goes on behind it.
        Return the lists of steps that the attempts have run, thrown away ones included.
    """,
    stub="""
        def attempts(steps, supported):
            return [list(steps)]
    """,
    hints=(
        "An attempt that meets such a step is thrown away; the same steps run once more.",
        "A step at which an attempt has stopped is run by Python, and not by an attempt.",
    ),
    solution="""
        def attempts(steps, supported):
            found, start = [], 0
            while start < len(steps):
                end = start
                while end < len(steps) and supported(steps[end]):
                    end += 1
                found.append(list(steps[start:end]))
                if end < len(steps):
                    found.append(list(steps[start:end]))
                start = end + 1
            return found
    """,
)
def start_again(attempts: Callable[..., Sequence[Sequence[str]]]) -> None:
    """Count what is run twice."""

    def supported(step: str) -> bool:
        return step != "print"

    cases = {
        "a b c": ["abc"],
        "a print b": ["a", "a", "b"],
        "a print b c print d": ["a", "a", "bc", "bc", "d"],
    }
    for text, expected in cases.items():
        found = ["".join(run) for run in attempts(text.split(), supported)]
        assert found == expected, f"{text!r} is run as {expected}, not {found}"


@exercise(
    PAGE,
    "build",
    question="""
        Write `record(decision)`: a decision is a dict with `context`, `paper`, `here`, `gain`,
        `cost` and perhaps `evidence`. Return the missing ones among the first five, in this
        order; a text of nothing but blanks is missing.
    """,
    stub="""
        def record(decision):
            return []
    """,
    hints=("`decision.get(name, '').strip()`",),
    solution="""
        def record(decision):
            names = ("context", "paper", "here", "gain", "cost")
            return [name for name in names if not decision.get(name, "").strip()]
    """,
)
def check_a_record(record: Callable[[dict[str, str]], list[str]]) -> None:
    """Check whole and broken records."""
    whole = dict.fromkeys(("context", "paper", "here", "gain", "cost"), "text")
    assert list(record(whole)) == [], "nothing is missing, evidence may be"
    assert list(record(whole | {"cost": " ", "paper": ""})) == ["paper", "cost"]
    assert len(record({})) == 5, "in an empty record all five are missing"
