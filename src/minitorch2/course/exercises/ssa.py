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
        Do by hand what the compiler does: change `program` so that it has one `return`, at its
        end, and no `break`. Flags take their place.
    """,
    stub="""
        def program(numbers, limit):
            for number in numbers:
                if number > limit:
                    break
                if number % 2 == 0:
                    return number
            return -1
    """,
    hints=(
        "`done = False` before the loop, and all of its body under `if not done`.",
        "The result has a value before the loop, too.",
    ),
    solution="""
        def program(numbers, limit):
            done, result = False, -1
            for number in numbers:
                if not done:
                    if number > limit:
                        done = True
                    elif number % 2 == 0:
                        done, result = True, number
            return result
    """,
)
def remove_exits(program: Callable[[list[int], int], int]) -> None:
    """Compare on lists, and read the answer's tree."""
    for numbers in ([], [1, 3], [1, 4, 6], [1, 9, 4], [2], [9]):
        found, expected = program(numbers, 8), search(numbers, 8)
        assert found == expected, f"program({numbers}, 8) is {expected}, not {found}"
    nodes = list(ast.walk(ast.parse(inspect.getsource(program))))
    assert not any(isinstance(node, ast.Break) for node in nodes), "there is a break"
    assert sum(isinstance(node, ast.Return) for node in nodes) == 1, "there must be one return"


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
