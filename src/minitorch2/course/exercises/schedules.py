"""Exercises of the chapter on Halide: an algorithm, and orders of its loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from minitorch2.course.exercise import exercise

PAGE = "layers/halide"
SIDE = 64  # rows and columns of a matrix
LINE = 16  # numbers in a line of the cache
LINES = 24  # lines that the cache holds; the one unused longest goes first


def lines_loaded(addresses: Iterable[int]) -> int:
    """Return how many lines of memory are loaded for these reads, one after the other."""
    cache: dict[int, None] = {}
    loaded = 0
    for address in addresses:
        line = address // LINE
        loaded += line not in cache
        cache.pop(line, None)
        cache[line] = None
        if len(cache) > LINES:
            del cache[next(iter(cache))]
    return loaded


def by_rows() -> Iterator[int]:
    """Return the addresses of a matrix, row by row."""
    return (row * SIDE + column for row in range(SIDE) for column in range(SIDE))


def by_columns() -> Iterator[int]:
    """Return the addresses of a matrix, column by column."""
    return (row * SIDE + column for column in range(SIDE) for row in range(SIDE))


@exercise(
    PAGE,
    "look",
    question="""
        The same 4,096 numbers are read row by row, and column by column. How many lines of
        memory does each order load into a cache of 24 lines of 16 numbers? Set `rows` and
        `columns`.
    """,
    stub="""
        from minitorch2.course.exercises.schedules import by_columns, by_rows, lines_loaded

        rows = ...
        columns = ...
    """,
    hints=("Along a row, 16 reads share a line.", "A column has 64 lines, and 24 stay."),
    solution="""
        from minitorch2.course.exercises.schedules import by_columns, by_rows, lines_loaded

        rows, columns = lines_loaded(by_rows()), lines_loaded(by_columns())
    """,
)
def count_lines(rows: int, columns: int) -> None:
    """Count them."""
    found = lines_loaded(by_rows()), lines_loaded(by_columns())
    assert (rows, columns) == found, f"{rows} and {columns} are not both right"


@exercise(
    PAGE,
    "change",
    question="""
        A transposition reads one matrix by rows and writes the other by columns. Change
        `order()`, the pairs (row, column) in their order, so that both sides together load at
        most 600 lines.
    """,
    stub="""
        def order():
            for row in range(64):
                for column in range(64):
                    yield row, column
    """,
    hints=(
        "Neither order alone is good: one side always walks down columns.",
        "Go tile by tile: 8 rows of 8 columns, then 16 of 16, and look.",
    ),
    solution="""
        def order():
            for top in range(0, 64, 16):
                for left in range(0, 64, 16):
                    for row in range(top, top + 16):
                        for column in range(left, left + 16):
                            yield row, column
    """,
)
def transpose_in_tiles(order: Callable[[], Iterable[tuple[int, int]]]) -> None:
    """Check that each pair comes once, and count the lines of both matrices."""
    pairs = list(order())
    assert len(pairs) == len(set(pairs)) == SIDE * SIDE, "each pair must come once"
    other = SIDE * SIDE
    touched = ((row * SIDE + column, other + column * SIDE + row) for row, column in pairs)
    found = lines_loaded(address for both in touched for address in both)
    assert found <= 600, f"{found} lines are loaded"


@exercise(
    PAGE,
    "build",
    question="""
        Write `split(extent, factor)`: the loop `for i in range(extent)` as a loop over blocks
        of `factor` and a loop inside of a block. Return the pairs (block, place) in their
        order; the last block may be short.
    """,
    stub="""
        def split(extent, factor):
            return [(0, i) for i in range(extent)]
    """,
    hints=("`divmod(i, factor)`",),
    solution="""
        def split(extent, factor):
            return [divmod(i, factor) for i in range(extent)]
    """,
)
def split_a_loop(split: Callable[[int, int], Sequence[tuple[int, int]]]) -> None:
    """Put the pairs together again."""
    for extent, factor in ((8, 4), (10, 4), (3, 8), (0, 4)):
        pairs = list(split(extent, factor))
        assert all(0 <= place < factor for _, place in pairs), f"a block has {factor} places"
        found = [block * factor + place for block, place in pairs]
        assert found == list(range(extent)), f"{extent} in blocks of {factor}: {found}"


class Chained:
    """A number that knows how many additions must run one after the other to make it."""

    def __init__(self, value: int, depth: int = 0) -> None:
        self.value, self.depth = value, depth

    def __add__(self, other: Any) -> Chained:
        """Return the sum, one addition deeper."""
        return Chained(self.value + other.value, max(self.depth, other.depth) + 1)


@exercise(
    PAGE,
    "build",
    question="""
        Write `total(values, lanes)`: a sum in `lanes` accumulators, which are added at the end
        (Halide's `rfactor`). No chain of additions may be longer than `len(values) / lanes +
        lanes`.
    """,
    stub="""
        def total(values, lanes):
            result = values[0]
            for value in values[1:]:
                result = result + value
            return result
    """,
    hints=("`values[lane::lanes]` is what one accumulator adds.",),
    solution="""
        def in_turn(values):
            result = values[0]
            for value in values[1:]:
                result = result + value
            return result


        def total(values, lanes):
            return in_turn([in_turn(values[lane::lanes]) for lane in range(lanes)])
    """,
)
def sum_in_lanes(total: Callable[[list[Chained], int], Chained]) -> None:
    """Compare sums, and measure the chains."""
    for count, lanes in ((64, 8), (100, 4), (9, 3)):
        found = total([Chained(n) for n in range(count)], lanes)
        assert found.value == sum(range(count)), f"the sum is {sum(range(count))}"
        most = count / lanes + lanes
        assert found.depth <= most, f"{found.depth} additions wait for each other, not {most:g}"
