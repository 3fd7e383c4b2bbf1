"""Exercises of the chapter on blocks, values and exits."""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minitorch2 import jit
from minitorch2.course.exercise import exercise

PAGE = "script/ssa"


def search(numbers: list[int], limit: int) -> int:
    """Return the first even number, or -1; look at no number behind one above the limit."""
    for number in numbers:
        if number > limit:
            break
        if number % 2 == 0:
            return number
    return -1


def loop_outputs(function: Callable[..., Any]) -> int:
    """Return how many values the one loop of a function carries."""
    graph = jit.script(function).graph
    (loop,) = (node for node in graph.nodes() if node.kind == "prim::Loop")
    return len(loop.outputs)


@exercise(
    PAGE,
    "look",
    question="""
        `search` leaves its loop by `break` and by `return`, and stores no variable that is
        read behind it. How many values does the loop carry? Set `carried`, and say what each
        is.
    """,
    stub="""
        from minitorch2 import jit
        from minitorch2.course.exercises.ssa import search

        print(jit.script(search).graph)
        carried = ...
    """,
    hints=("An exit that may happen is a value of type bool, and a return has a result.",),
    solution="""
        from minitorch2.course.exercises.ssa import loop_outputs, search

        carried = loop_outputs(search)
    """,
)
def count_flags(carried: int) -> None:
    """Count the loop's outputs."""
    assert carried == loop_outputs(search), f"{carried} is not the number of outputs"


@exercise(
    PAGE,
    "change",
    question="""
        Do by hand what the compiler does to exits of two loops: change `program` so that it
        has neither `break` nor `continue`. A `break` leaves the inner loop only. The `while`
        must not go on behind it, so its condition asks a flag, too.
    """,
    stub="""
        def program(numbers):
            total = 0
            for number in numbers:
                if number < 0:
                    continue
                while number > 9:
                    if number % 10 == 7:
                        break
                    number = number // 10
                total = total + number
            return total
    """,
    hints=(
        "`continue` skips the rest of the body: put that rest under an `if`.",
        "`left = False` before the inner loop, and `while number > 9 and not left`.",
    ),
    solution="""
        def program(numbers):
            total = 0
            for number in numbers:
                if number >= 0:
                    left = False
                    while number > 9 and not left:
                        if number % 10 == 7:
                            left = True
                        else:
                            number = number // 10
                    total = total + number
            return total
    """,
)
def remove_exits(program: Callable[[list[int]], int]) -> None:
    """Compare on lists, and read the answer's tree."""
    cases: tuple[tuple[list[int], int], ...] = (
        ([], 0),
        ([5, -3, 12], 6),
        ([471, 1], 48),
        ([-7, 7, 17, 30], 27),
        ([1234], 1),
    )
    for numbers, expected in cases:
        found = program(list(numbers))
        assert found == expected, f"program({numbers}) is {expected}, not {found}"
    nodes = list(ast.walk(ast.parse(inspect.getsource(program))))
    assert not any(isinstance(n, ast.Break | ast.Continue) for n in nodes), "an exit is left"


Statement = tuple[str, str, str, str]


def result_of(statements: Sequence[Statement], names: Mapping[str, int], last: str) -> int:
    """Run three-address code, and return one variable."""
    values = dict(names)
    for target, name, left, right in statements:
        values[target] = getattr(operator, name)(values[left], values[right])
    return values[last]


@exercise(
    PAGE,
    "build",
    question="""
        Write `rename(statements)`: straight code such as `("x", "add", "x", "y")`, in which
        names are stored again and again, becomes code in which each target is new. Names that
        are read before they are stored are inputs, and stay. Return the statements and a dict
        from each stored name to its last value.
    """,
    stub="""
        def rename(statements):
            return statements, {target: target for target, *_ in statements}
    """,
    hints=(
        "Keep a dict from a name to its present value, and read operands from it.",
        "Inputs keep their names, so no target may have an input's name.",
    ),
    solution="""
        def rename(statements):
            now, renamed = {}, []
            for number, (target, name, left, right) in enumerate(statements):
                operands = now.get(left, left), now.get(right, right)
                now[target] = f"{target}.{number}"
                renamed.append((now[target], name, *operands))
            return renamed, now
    """,
)
def straight_code(rename: Callable[..., tuple[Sequence[Statement], dict[str, str]]]) -> None:
    """Check that targets are unique and that the results are the same."""
    code: list[Statement] = [
        ("x", "add", "x", "y"),
        ("z", "mul", "x", "x"),
        ("x", "sub", "z", "y"),
        ("y", "add", "x", "z"),
    ]
    renamed, last = rename(code)
    targets = [target for target, *_ in renamed]
    assert len({*targets, "x", "y"}) == len(targets) + 2, f"{targets} are not all new"
    for name in ("x", "y", "z"):
        expected = result_of(code, {"x": 2, "y": 3}, name)
        found = result_of(renamed, {"x": 2, "y": 3}, last[name])
        assert found == expected, f"{name} is {expected} at the end, not {found}"


@exercise(
    PAGE,
    "build",
    question="""
        Write `merge(before, then, otherwise)`: dicts from names to values, before an `if` and
        as stored in its branches. Return the outputs of the `if`: a dict from each name that a
        branch stores to the pair of values that the branches give. A name without a value on
        one of the ways has none afterwards, and is no output.
    """,
    stub="""
        def merge(before, then, otherwise):
            return {name: (then[name], otherwise[name]) for name in then}
    """,
    hints=("A branch that does not store a name gives the value from before.",),
    solution="""
        def merge(before, then, otherwise):
            ways = before | then, before | otherwise
            stored = [name for name in {**then, **otherwise} if all(name in way for way in ways)]
            return {name: (ways[0][name], ways[1][name]) for name in stored}
    """,
)
def outputs_of_a_branch(merge: Callable[..., dict[str, tuple[str, str]]]) -> None:
    """Try names stored in both branches, in one, and new ones."""
    found = merge({"a": "a0", "b": "b0"}, {"a": "a1", "c": "c1", "d": "d1"}, {"b": "b2", "c": "c2"})
    expected = {"a": ("a1", "a0"), "b": ("b0", "b2"), "c": ("c1", "c2")}
    assert found == expected, f"the outputs are {expected}, not {found}"
    assert merge({"a": "a0"}, {}, {}) == {}, "what no branch stores is no output"
