"""Exercises of the chapter on plans, guards and bailouts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from minitorch2 import jit, stages
from minitorch2.course.exercise import exercise

PAGE = "script/plans"
ROWS = (2, 2, 2, 3, 4, 5, 6)


def gate(x: Tensor, w: Tensor) -> Tensor:
    """Return a product that another tensor scales."""
    return torch.sigmoid(x @ w) * torch.tanh(x)


def bailouts_of(rows: Iterable[int]) -> int:
    """Return how often calls of these sizes leave a plan of `gate` in the middle."""
    scripted = jit.script(gate)
    with stages.collect() as log:
        for size in rows:
            scripted(torch.ones(size, 3), torch.eye(3))
    return log.counts["script_bailouts"]


@exercise(
    PAGE,
    "look",
    question="""
        `gate` is called with tensors of `ROWS` rows, one call after the other. How many of
        these calls bail out? Set `bailouts`.
    """,
    stub="""
        from minitorch2.course.exercises.plans import ROWS, gate

        bailouts = ...
    """,
    hints=(
        "The first plan holds for the size that was seen.",
        "After one bailout, a plan is made in which sizes that differ are `*`.",
    ),
    solution="""
        from minitorch2.course.exercises.plans import ROWS, bailouts_of

        bailouts = bailouts_of(ROWS)
    """,
)
def count_bailouts(bailouts: int) -> None:
    """Count them."""
    found = bailouts_of(ROWS)
    assert bailouts == found, f"{bailouts} is not the number of bailouts"


@exercise(
    PAGE,
    "change",
    question="""
        `believed(seen)` takes the sizes that a tensor had in the calls so far, and returns
        those that the next plan believes: the first ones. So each other size bails out. Change
        it so that a size that has differed is `None`, which no guard asks about. Where the
        number of dimensions has differed, nothing is believed: the result is `None`.
    """,
    stub="""
        def believed(seen):
            return seen[0]
    """,
    hints=(
        "`len({len(size) for size in seen})` counts the numbers of dimensions.",
        "`zip(*seen)` gives what was seen in each dimension.",
    ),
    solution="""
        def believed(seen):
            if len({len(size) for size in seen}) > 1:
                return None
            return tuple(each[0] if len(set(each)) == 1 else None for each in zip(*seen))
    """,
)
def generalize_sizes(believed: Callable[..., Sequence[int | None] | None]) -> None:
    """Try calls that agree, that differ in a size, and that differ in their rank."""
    cases: tuple[tuple[list[tuple[int, ...]], tuple[int | None, ...] | None], ...] = (
        ([(2, 3), (2, 3)], (2, 3)),
        ([(2, 3), (5, 3), (2, 3)], (None, 3)),
        ([(2, 3), (4, 4)], (None, None)),
        ([(6,), (2, 3)], None),
        ([(), ()], ()),
    )
    for seen, expected in cases:
        found = believed(seen)
        assert found == expected, f"after {seen} a plan believes {expected}, not {found}"


@exercise(
    PAGE,
    "build",
    question="""
        Write `needed(statements, place, results)`: a guard fails before statement `place`.
        Which values does the rest of the program need? A statement is a target and the names
        that it reads; `results` are read at the end. Return a set.
    """,
    stub="""
        def needed(statements, place, results):
            return set(results)
    """,
    hints=("Go from the end to the place: a target is needed no more, what it reads is.",),
    solution="""
        def needed(statements, place, results):
            live = set(results)
            for target, reads in reversed(statements[place:]):
                live = live - {target} | set(reads)
            return live
    """,
)
def inputs_of_the_rest(needed: Callable[..., set[str]]) -> None:
    """Ask at each place of a program."""
    program = [("a", ["x"]), ("b", ["a", "w"]), ("x", ["b"]), ("c", ["x", "b"])]
    expected = [{"x", "w"}, {"a", "w"}, {"b"}, {"x", "b"}, {"c"}]
    for place, names in enumerate(expected):
        found = set(needed(program, place, ["c"]))
        assert found == names, f"at {place} the rest needs {sorted(names)}, not {sorted(found)}"


@exercise(
    PAGE,
    "build",
    question="""
        Write `left(trips, at)`: a guard fails in loops inside of each other, with `trips`
        turns each, at the turn `at` (a number for each loop, from outside to inside). Return
        the turns that are left, the present one first, as a list of tuples in their order.
    """,
    stub="""
        def left(trips, at):
            return [at]
    """,
    hints=(
        "First what is left of the inner loops in this turn of the outer one.",
        "Then the later turns of the outer loop, with inner loops from their start.",
    ),
    solution="""
        import itertools


        def left(trips, at):
            if not trips:
                return [()]
            turns = [(at[0], *rest) for rest in left(trips[1:], at[1:])]
            for turn in range(at[0] + 1, trips[0]):
                turns += [(turn, *rest) for rest in itertools.product(*map(range, trips[1:]))]
            return turns
    """,
)
def turns_left(left: Callable[..., Sequence[tuple[int, ...]]]) -> None:
    """Compare with all turns that are not before the present one."""
    for trips in ((4,), (2, 3), (3, 1, 2)):
        every = list(itertools.product(*map(range, trips)))
        for place, at in enumerate(every):
            found = [tuple(turn) for turn in left(trips, at)]
            assert found == every[place:], f"{trips} at {at}: {every[place:]}, not {found}"
