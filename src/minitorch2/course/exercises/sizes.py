"""Exercises of the chapter on sizes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from minitorch2.api import compiler
from minitorch2.course.exercise import exercise
from minitorch2.course.exercises.guards import count_graphs

PAGE = "sizes"
LENGTHS = (5, 6, 7, 1, 8)


def joined(x: Tensor) -> Tensor:
    """Return twice the tensor, by another operator where it is long."""
    if x.shape[0] > 8:
        return x * 2
    return x + x


@exercise(
    PAGE,
    "look",
    question="""
        How many graphs has `lambda x: x * 2` after calls with tensors of the lengths 5, 6, 7,
        1 and 8?
    """,
    stub="""
        graphs = ...
    """,
    hints=(
        "A size is a number at first, and a symbol from the second compilation on.",
        "A size of 1 broadcasts, so it is compiled apart.",
    ),
    solution="""
        import torch

        from minitorch2.course.exercises.sizes import LENGTHS, count_graphs

        graphs = count_graphs(lambda x: x * 2, [(torch.ones(n),) for n in LENGTHS])
    """,
)
def count_sizes(graphs: int) -> None:
    """Count them."""
    found = count_graphs(lambda x: x * 2, [(torch.ones(n),) for n in LENGTHS])
    assert graphs == found, f"{graphs} is not the number of graphs"


@exercise(
    PAGE,
    "change",
    question="""
        `joined` has a graph for short tensors and one for long ones. Write `program(x)` with
        the same results, so that `dynamic=True` needs one graph for all lengths from 2 on.
    """,
    stub="""
        def program(x):
            if x.shape[0] > 8:
                return x * 2
            return x + x
    """,
    hints=("Compare what both sides compute.",),
    solution="""
        def program(x):
            return x * 2
    """,
)
def one_graph(program: Callable[[Tensor], Tensor]) -> None:
    """Count the compilations for lengths on both sides of 8."""
    made: list[object] = []

    def backend(graph: Callable[..., object], _: object) -> Callable[..., object]:
        made.append(graph)
        return graph

    fast = compiler.compile(program, backend=backend, dynamic=True)
    for length in (3, 8, 9, 20):
        x = torch.randn(length)
        torch.testing.assert_close(fast(x), joined(x))
    assert len(made) == 1, f"four lengths have made {len(made)} graphs"


@exercise(
    PAGE,
    "change",
    question="""
        Write `rows(x)`, which is `x.reshape(-1, 4)` for a tensor whose length is a multiple
        of 4, and an empty tensor of 4 columns for any other one. It needs two graphs under
        `dynamic=True`; which condition tells them apart?
    """,
    stub="""
        def rows(x):
            return x.reshape(-1, 4)
    """,
    hints=(
        "Ask `x.shape[0] % 4 == 0`: the answer is a guard on the symbol.",
        "`x.new_empty(0, 4)`",
    ),
    solution="""
        def rows(x):
            if x.shape[0] % 4 == 0:
                return x.reshape(-1, 4)
            return x.new_empty(0, 4)
    """,
)
def guard_on_divisibility(rows: Callable[[Tensor], Tensor]) -> None:
    """Try lengths of both kinds, and count the graphs."""
    lengths = (8, 12, 20, 6, 7)
    for length in lengths:
        expected = (length // 4 if length % 4 == 0 else 0, 4)
        shape = tuple(rows(torch.ones(length)).shape)
        assert shape == expected, f"a tensor of {length} gives {shape}, not {expected}"
    made: list[object] = []

    def backend(graph: Callable[..., object], _: object) -> Callable[..., object]:
        made.append(graph)
        return graph

    fast = compiler.compile(rows, backend=backend, dynamic=True)
    for length in lengths:
        fast(torch.ones(length))
    assert len(made) <= 2, f"these lengths have made {len(made)} graphs"


@exercise(
    PAGE,
    "build",
    question="""
        Write `decide(fact, low, high)`: is `s0 > fact` always true (`True`), never (`False`)
        or unknown (`None`), if `s0` lies between `low` and `high`, both included?
    """,
    stub="""
        def decide(fact, low, high):
            return None
    """,
    hints=("Ask the smallest value and the largest: if they agree, all agree.",),
    solution="""
        def decide(fact, low, high):
            if low > fact:
                return True
            if high <= fact:
                return False
            return None
    """,
)
def decide_by_range(decide: Callable[[int, int, int], bool | None]) -> None:
    """Compare with all sizes of small ranges."""
    for low in range(2, 6):
        for high in range(low, 7):
            for fact in range(8):
                answers = {size > fact for size in range(low, high + 1)}
                expected = answers.pop() if len(answers) == 1 else None
                found = decide(fact, low, high)
                assert found is expected, f"s0 > {fact} with s0 in {low}..{high} is {expected}"
