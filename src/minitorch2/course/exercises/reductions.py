"""Exercises of the chapter on reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from minitorch2.course.exercise import exercise

PAGE = "gpu/reductions"


def passes(form: str) -> int:
    """Return how often a softmax reads its row in the kernel of a form."""
    return {"persistent": 1, "looped": 2}[form]


@exercise(
    PAGE,
    "look",
    question="""
        A softmax reads 1,024 rows of 100,000 float32 numbers and writes as many. How many
        bytes does the looped kernel of this chapter move if nothing stays in the cache, and
        how many would move if a row fitted into a block? Set `looped` and `persistent`.
    """,
    stub="""
        looped = ...
        persistent = ...
    """,
    hints=(
        "The looped kernel reads a row for the maximum and the sum at once, and again to divide.",
        "Each number has four bytes, and is written once.",
    ),
    solution="""
        numbers = 1024 * 100_000
        looped, persistent = 3 * 4 * numbers, 2 * 4 * numbers
    """,
)
def count_bytes(looped: int, persistent: int) -> None:
    """Compute them from the number of passes."""
    size = torch.empty(1024, 100_000, device="meta").nbytes
    expected = tuple((passes(form) + 1) * size for form in ("looped", "persistent"))
    assert (looped, persistent) == expected, f"{looped} and {persistent} are not both right"


@exercise(
    PAGE,
    "change",
    question="""
        `greatest(row, block)` takes the maximum block by block. The last block is short, and
        what is missing reads as 0: wrong where all numbers are negative. Mend it.
    """,
    stub="""
        import torch


        def greatest(row, block):
            result = float("-inf")
            for start in range(0, len(row), block):
                values = torch.full((block,), 0.0)
                part = row[start : start + block]
                values[: len(part)] = part
                result = max(result, values.max().item())
            return result
    """,
    hints=("What is missing must be the neutral element: maximum(x, ?) is x.",),
    solution="""
        import torch


        def greatest(row, block):
            result = float("-inf")
            for start in range(0, len(row), block):
                values = torch.full((block,), float("-inf"))
                part = row[start : start + block]
                values[: len(part)] = part
                result = max(result, values.max().item())
            return result
    """,
)
def mask_the_rest(greatest: Callable[[Tensor, int], float]) -> None:
    """Try negative rows of several lengths."""
    for length in (1, 7, 8, 13):
        row = -torch.rand(length) - 1
        found = greatest(row, 8)
        assert found == row.max().item(), f"a row of {length}: {row.max():.3f}, not {found:.3f}"


@exercise(
    PAGE,
    "build",
    question="""
        Write `softmax_sum(pieces)`: the maximum `m` of all numbers in the pieces, and the sum
        of `exp(x - m)`. Each piece is seen once, and `m` is known only at the end.
    """,
    stub="""
        import math


        def softmax_sum(pieces):
            numbers = [x for piece in pieces for x in piece]
            return max(numbers), len(numbers)
    """,
    hints=(
        "When the maximum grows from m to n, what was added so far is multiplied by exp(m - n).",
        "Begin with minus infinity and 0: exp(-inf) is 0.",
    ),
    solution="""
        import math


        def softmax_sum(pieces):
            greatest, total = -math.inf, 0.0
            for piece in pieces:
                new = max(greatest, *piece)
                total *= math.exp(greatest - new)
                total += sum(math.exp(x - new) for x in piece)
                greatest = new
            return greatest, total
    """,
)
def follow_the_maximum(softmax_sum: Callable[..., tuple[float, float]]) -> None:
    """Give large numbers, piece by piece; who keeps all of them is found out."""
    torch.manual_seed(0)
    numbers = (torch.randn(40) * 300).tolist()
    alive: list[int] = []

    class Piece(list[float]):
        def __del__(self) -> None:
            alive.append(len(self))

    def pieces() -> Iterable[Sequence[float]]:
        for start in range(0, 40, 8):
            yield Piece(numbers[start : start + 8])

    greatest, total = softmax_sum(pieces())
    expected = sum(math.exp(x - max(numbers)) for x in numbers)
    assert greatest == max(numbers), f"the maximum is {max(numbers)}"
    assert math.isclose(total, expected, rel_tol=1e-9), f"the sum is {expected}, not {total}"


@exercise(
    PAGE,
    "build",
    question="""
        Write `pieces(rows, columns, block, wanted)`: the sum of each column runs on programs
        that take `block` columns each. Into how many pieces must the rows be cut so that there
        are at least `wanted` programs? A piece has at least one row; the number is as small as
        it can be.
    """,
    stub="""
        def pieces(rows, columns, block, wanted):
            return 1
    """,
    hints=("There are ceil(columns / block) programs for each piece.",),
    solution="""
        def pieces(rows, columns, block, wanted):
            programs = -(-columns // block)
            return min(rows, -(-wanted // programs))
    """,
)
def cut_the_rows(pieces: Callable[[int, int, int, int], int]) -> None:
    """Try all answers on small cases."""
    for rows, columns, block, wanted in (
        (1_000_000, 64, 64, 500),
        (1000, 65, 64, 500),
        (7, 64, 64, 100),
        (100, 4096, 8, 300),
    ):
        programs = math.ceil(columns / block)
        enough = (count for count in range(1, rows + 1) if count * programs >= wanted)
        expected = next(enough, rows)
        found = pieces(rows, columns, block, wanted)
        assert found == expected, f"{rows} x {columns}: {expected} pieces, not {found}"
