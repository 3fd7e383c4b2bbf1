"""Exercises of the chapter on guards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from minitorch2 import stages
from minitorch2.api import compiler
from minitorch2.course.exercise import exercise

PAGE = "capture/guards"


def pick(x: Tensor, table: dict[str, float]) -> Tensor:
    """Return the tensor times a number that the table holds, or plus one."""
    if "scale" in table:
        return x * table["scale"]
    return x + 1


CALLS: tuple[dict[str, float], ...] = ({}, {"shift": 1.0}, {"scale": 2.0}, {"scale": 2.0}, {})


def count_graphs(function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> int:
    """Return how many graphs are made in these calls, operators running one by one."""
    fast = compiler.compile(function, backend="eager")
    with stages.collect() as log:
        for call in calls:
            torch.testing.assert_close(fast(*call), function(*call))
    return log.counts["graphs"]


@exercise(
    PAGE,
    "look",
    question="""
        How many graphs does `pick` have after the calls with the tables in `CALLS`?
    """,
    stub="""
        from minitorch2.course.exercises.guards import CALLS, pick

        graphs = ...
    """,
    hints=(
        "Which question does the program ask about the table, and when does the answer change?",
        "`minitorch2.compile(pick).recompiles()` lists each compilation that a guard has caused.",
    ),
    solution="""
        import torch

        from minitorch2.course.exercises.guards import CALLS, count_graphs, pick

        graphs = count_graphs(pick, [(torch.ones(2), table) for table in CALLS])
    """,
)
def count_entries(graphs: int) -> None:
    """Count them."""
    found = count_graphs(pick, [(torch.ones(2), table) for table in CALLS])
    assert graphs == found, f"{graphs} is not the number of graphs: compile it and look"


@exercise(
    PAGE,
    "change",
    question="""
        `x * len(words)` is compiled for each length. Write `prepare(words)` and `program(x,
        prepared)` so that one graph serves all lengths.
    """,
    stub="""
        def prepare(words):
            return words


        def program(x, prepared):
            return x * len(prepared)
    """,
    hints=(
        "A number that Python must know is guarded by its value, a tensor is not.",
        "Let `prepare` return a tensor that holds the length.",
    ),
    solution="""
        import torch


        def prepare(words):
            return torch.tensor(float(len(words)))


        def program(x, prepared):
            return x * prepared
    """,
)
def one_graph_for_all_lengths(
    prepare: Callable[[list[str]], Any], program: Callable[..., Tensor]
) -> None:
    """Call it with lists of six lengths."""
    x, lists = torch.ones(3), [["word"] * n for n in range(1, 7)]
    for words in lists:
        torch.testing.assert_close(program(x, prepare(words)), x * len(words))
    found = count_graphs(program, [(x, prepare(words)) for words in lists])
    assert found == 1, f"six lists of words have made {found} graphs"


@exercise(
    PAGE,
    "build",
    question="""
        Write `guard_of(x)`: a function of a tensor that is true if the dtype, sizes, strides
        and `requires_grad` are those of `x`.
    """,
    stub="""
        def guard_of(x):
            return lambda y: True
    """,
    hints=(
        "Take the facts out of `x` before you return the function: `x` may change later.",
        "Compare `y.stride()` as well: a transposed tensor has the same sizes if it is square.",
    ),
    solution="""
        def facts(x):
            return x.dtype, x.shape, x.stride(), x.requires_grad


        def guard_of(x):
            expected = facts(x)
            return lambda y: facts(y) == expected
    """,
)
def guard_a_tensor(guard_of: Callable[[Tensor], Callable[[Tensor], bool]]) -> None:
    """Change one fact after the other; change the tensor itself at the end."""
    x = torch.ones(2, 2)
    guard = guard_of(x)
    assert guard(torch.zeros(2, 2)), "data is no fact: other numbers must pass"
    others = {
        "dtype": x.double(),
        "sizes": torch.ones(2, 3),
        "strides": x.T,
        "requires_grad": torch.ones(2, 2, requires_grad=True),
    }
    for fact, other in others.items():
        assert not guard(other), f"a tensor of other {fact} passes"
    x.unsqueeze_(0)
    assert guard(torch.ones(2, 2)), "the guard must not look at a tensor that may change"


@exercise(
    PAGE,
    "build",
    question="""
        Write `dispatch(compiler)`: given `compiler(x) -> function`, return a function of a
        tensor that asks the compiler once for each sizes and dtype, and calls what it gave.
    """,
    stub="""
        def dispatch(compiler):
            def call(x):
                return compiler(x)(x)

            return call
    """,
    hints=(
        "Keep a list or a dict of entries next to the function.",
        "`(x.shape, x.dtype)` is a key.",
    ),
    solution="""
        def dispatch(compiler):
            entries = {}

            def call(x):
                key = x.shape, x.dtype
                if key not in entries:
                    entries[key] = compiler(x)
                return entries[key](x)

            return call
    """,
)
def dispatch_calls(dispatch: Callable[..., Callable[[Tensor], Tensor]]) -> None:
    """Count how often the compiler is asked."""
    asked: list[torch.Size] = []

    def compiler(x: Tensor) -> Callable[[Tensor], Tensor]:
        asked.append(x.shape)
        shape = x.shape
        return lambda y: y + len(shape)

    call = dispatch(compiler)
    for x in (torch.ones(2), torch.ones(2, 2), torch.zeros(2), torch.ones(2).double()) * 2:
        torch.testing.assert_close(call(x), x + x.dim())
    assert len(asked) == 3, f"there are three kinds of tensors; you compiled {len(asked)} times"
