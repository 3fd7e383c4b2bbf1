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
        `plan_for(x, fast, slow)` believes that all later tensors have the size of `x`. Change
        it so that it believes, checks, and has a way out: `slow`.
    """,
    stub="""
        def plan_for(x, fast, slow):
            return fast
    """,
    hints=("Keep `x.shape`, and return a function that compares it.",),
    solution="""
        def plan_for(x, fast, slow):
            believed = x.shape

            def plan(y):
                return fast(y) if y.shape == believed else slow(y)

            return plan
    """,
)
def believe_and_check(plan_for: Callable[..., Callable[[Tensor], str]]) -> None:
    """Call the plan with the size that was seen, and with others."""
    plan = plan_for(torch.ones(2, 3), lambda x: "fast", lambda x: "slow")
    for size, expected in (((2, 3), "fast"), ((3, 3), "slow"), ((2, 3), "fast"), ((6,), "slow")):
        found = plan(torch.ones(size))
        assert found == expected, f"a tensor of {size} goes the {found} way"


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
