"""Exercises of the chapter on the wrapper."""

from __future__ import annotations

import random
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from minitorch2.codegen.arena import Interval, plan_arena
from minitorch2.course.exercise import exercise

PAGE = "layers/wrapper"
BUFFERS = (Interval("a", 128, 0, 1), Interval("b", 64, 1, 2), Interval("c", 128, 2, 3))


def most_alive(intervals: Sequence[Interval]) -> int:
    """Return the most bytes that are alive at one kernel."""
    return max(
        sum(each.bytes for each in intervals if each.start <= kernel <= each.end)
        for kernel in range(max(each.end for each in intervals) + 1)
    )


@exercise(
    PAGE,
    "look",
    question="""
        How many bytes has the arena of `BUFFERS`, and how many would it have without reuse?
        Set `arena` and `apart`.
    """,
    stub="""
        from minitorch2.course.exercises.wrapper import BUFFERS

        print(*BUFFERS, sep="\\n")
        arena = ...
        apart = ...
    """,
    hints=(
        "Draw the three as bars: kernels from left to right, bytes upwards.",
        "`minitorch2.codegen.arena.plan_arena(BUFFERS)` says both.",
    ),
    solution="""
        from minitorch2.codegen.arena import plan_arena
        from minitorch2.course.exercises.wrapper import BUFFERS

        plan = plan_arena(BUFFERS)
        arena, apart = plan.bytes, plan.bytes_without_reuse
    """,
)
def size_of_the_arena(arena: int, apart: int) -> None:
    """Ask the planner."""
    plan = plan_arena(BUFFERS)
    found = plan.bytes, plan.bytes_without_reuse
    assert (arena, apart) == found, f"{arena} and {apart} are not both right"


@exercise(
    PAGE,
    "change",
    question="""
        This wrapper keeps its input alive until it returns. Change it so that the input is
        dead when `second` runs.
    """,
    stub="""
        def call(args, first, second):
            x, = args
            y = first(x)
            return [second(y)]
    """,
    hints=("The caller's list holds the input, too: empty it.", "Then delete the variable."),
    solution="""
        def call(args, first, second):
            x, = args
            args.clear()
            y = first(x)
            del x
            return [second(y)]
    """,
)
def free_an_input(call: Callable[..., list[Tensor]]) -> None:
    """Watch the input by a weak reference from inside of the second kernel."""
    arguments = [torch.ones(2)]
    watched = weakref.ref(arguments[0])
    alive: list[bool] = []

    def second(y: Tensor) -> Tensor:
        alive.append(watched() is not None)
        return y * 2

    (result,) = call(arguments, lambda x: x + 1, second)
    assert result.tolist() == [4.0, 4.0], f"the result is {result.tolist()}, not [4.0, 4.0]"
    assert alive == [False], "the input is still alive when the second kernel runs"


@exercise(
    PAGE,
    "build",
    question="""
        Write `deaths(steps, kept)`: `steps` are pairs of a result and the names that it reads.
        Return a list of sets: the names that may be deleted behind each step. Names in `kept`
        are returned, so they never die.
    """,
    stub="""
        def deaths(steps, kept):
            return [set() for _ in steps]
    """,
    hints=(
        "Go through the steps backward: the first reader that you meet is the last one.",
        "A result that nobody reads dies at once.",
    ),
    solution="""
        def deaths(steps, kept):
            seen, found = set(kept), []
            for result, reads in reversed(steps):
                found.append({result, *reads} - seen)
                seen |= {result, *reads}
            return found[::-1]
    """,
)
def delete_early(deaths: Callable[..., list[set[str]]]) -> None:
    """Compare on a program with a value read twice and one read never."""
    steps = [("a", ["x"]), ("b", ["x", "a"]), ("unused", ["a"]), ("c", ["b", "b"])]
    found = [set(each) for each in deaths(steps, {"c"})]
    expected = [set(), {"x"}, {"a", "unused"}, {"b"}]
    assert found == expected, f"{found} is not {expected}"
    assert [set(each) for each in deaths(steps[:1], {"a", "x"})] == [set()], "x is kept"


@exercise(
    PAGE,
    "build",
    question="""
        Write `place(intervals)`: a dict from each interval's name to its offset in an arena.
        Buffers that are alive at the same kernel must not overlap. The arena may be at most
        half as large again as the most bytes alive at a time.
    """,
    stub="""
        def place(intervals):
            offsets, end = {}, 0
            for each in intervals:
                offsets[each.name] = end
                end += each.bytes
            return offsets
    """,
    hints=(
        "Place the largest first.",
        "For each buffer, go through those placed buffers that live at the same time, by their "
        "offsets, and take the first gap that is wide enough.",
    ),
    solution="""
        def place(intervals):
            placed = []
            for each in sorted(intervals, key=lambda interval: -interval.bytes):
                offset = 0
                for start, other in sorted(placed, key=lambda pair: pair[0]):
                    apart = other.end < each.start or each.end < other.start
                    if not apart and start < offset + each.bytes:
                        offset = max(offset, start + other.bytes)
                placed.append((offset, each))
            return {each.name: offset for offset, each in placed}
    """,
)
def plan_memory(place: Callable[..., Mapping[str, int]]) -> None:
    """Test random lives for overlaps and for the size."""
    draw = random.Random(0)
    for _ in range(50):
        starts = [draw.randint(0, 9) for _ in range(12)]
        buffers = [
            Interval(f"b{i}", 64 * draw.randint(1, 8), start, start + draw.randint(0, 3))
            for i, start in enumerate(starts)
        ]
        offsets = place(buffers)
        for clash in _clashes(buffers, offsets):
            raise AssertionError(f"{clash} are alive together and overlap")
        size, most = max(offsets[b.name] + b.bytes for b in buffers), most_alive(buffers)
        assert size <= 1.5 * most, f"the arena has {size} bytes, and {most} are alive at most"


def _clashes(buffers: Sequence[Interval], offsets: Mapping[str, int]) -> Any:
    """Return pairs of buffers that overlap in time and in memory."""
    for i, a in enumerate(buffers):
        for b in buffers[:i]:
            together = a.start <= b.end and b.start <= a.end
            x, y = offsets[a.name], offsets[b.name]
            if together and x < y + b.bytes and y < x + a.bytes:
                yield a.name, b.name
