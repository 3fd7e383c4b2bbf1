"""Exercises of the chapter on graph breaks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from minitorch2.api import reports
from minitorch2.course.exercise import exercise

PAGE = "capture/breaks"


def report(x: Tensor) -> Tensor:
    """Return something, and write to the screen on the way."""
    y = torch.sin(x)
    sys.stdout.write("")
    if y.sum() > 0:
        y = y * 2
    return y + 1


def explained(function: Callable[..., Any], *inputs: Any) -> Any:
    """Return what `explain` finds, operators running one by one."""
    return reports.explain(function, backend="eager")(*inputs)


@exercise(
    PAGE,
    "look",
    question="""
        How many breaks has `report` for `torch.ones(3)`, and how many operators has each
        graph? Set `breaks` and `operators` (a list).
    """,
    stub="""
        from minitorch2.course.exercises.breaks import report

        breaks = ...
        operators = ...
    """,
    hints=("`minitorch2.explain(report)(torch.ones(3))` has all of it; print it.",),
    solution="""
        import torch

        from minitorch2.course.exercises.breaks import explained, report

        found = explained(report, torch.ones(3))
        breaks, operators = found.graph_break_count, found.ops_per_graph
    """,
)
def count_breaks(breaks: int, operators: list[int]) -> None:
    """Compare with the explanation."""
    found = explained(report, torch.ones(3))
    assert breaks == found.graph_break_count, f"{breaks} is not the number of breaks"
    assert list(operators) == found.ops_per_graph, f"{operators} are not the operators per graph"


@exercise(
    PAGE,
    "change",
    question="""
        Write `program(x)`, which returns what `report` returns, in one graph.
    """,
    stub="""
        import torch


        def program(x):
            y = torch.sin(x)
            if y.sum() > 0:
                y = y * 2
            return y + 1
    """,
    hints=(
        "A branch on data is no branch if both sides are computed.",
        "`torch.where(condition, a, b)` takes elements of one or the other.",
    ),
    solution="""
        import torch


        def program(x):
            y = torch.sin(x)
            return torch.where(y.sum() > 0, y * 2, y) + 1
    """,
)
def remove_the_branch(program: Callable[[Tensor], Tensor]) -> None:
    """Try both sides of the branch, and count the graphs."""
    for x in (torch.ones(3), -torch.ones(3)):
        torch.testing.assert_close(program(x), report(x))
        found = explained(program, x)
        assert found.graph_break_count == 0, f"there is still a break: {found.costs[0]}"


@exercise(
    PAGE,
    "change",
    question="""
        Write `program(x)` as `x.sum().item() * x`, which needs a number, in one graph.
    """,
    stub="""
        def program(x):
            return float(str(x.sum().item())) * x
    """,
    hints=("Does the product need a number of Python at all?", "A tensor of one element will do."),
    solution="""
        def program(x):
            return x.sum() * x
    """,
)
def keep_the_number_in_the_graph(program: Callable[[Tensor], Tensor]) -> None:
    """Compare, and count the breaks."""
    x = torch.tensor([1.0, 2.5])
    torch.testing.assert_close(program(x), x.sum() * x)
    assert explained(program, x).graph_break_count == 0, "there is still a break"


@exercise(
    PAGE,
    "build",
    question="""
        Write `halves(operators, is_plain)`: the longest runs of operators that are plain, as
        lists. That is what breaks make of a program.
    """,
    stub="""
        def halves(operators, is_plain):
            return [operators]
    """,
    hints=(
        "Keep the run that is being built; a break ends it.",
        "Runs that are empty are no graph.",
    ),
    solution="""
        def halves(operators, is_plain):
            runs = [[]]
            for each in operators:
                if is_plain(each):
                    runs[-1].append(each)
                else:
                    runs.append([])
            return [run for run in runs if run]
    """,
)
def split_at_breaks(halves: Callable[..., list[list[str]]]) -> None:
    """Compare on breaks at the ends, in the middle and side by side."""
    cases = {
        "sin print cos": 2,
        "print sin": 1,
        "sin cos print": 1,
        "a print print b c": 2,
        "print": 0,
    }
    for text, count in cases.items():
        found = halves(text.split(), lambda name: name != "print")
        assert len(found) == count, f"{text!r} has {count} graphs, not {len(found)}"
        words = [word for run in found for word in run]
        assert words == [word for word in text.split() if word != "print"], f"{text!r}: {words}"
