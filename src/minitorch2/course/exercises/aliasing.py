"""Exercises of the chapter on memory that values share."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor

from minitorch2 import jit
from minitorch2.course.exercise import exercise
from minitorch2.script.analysis.alias_db import AliasDb

PAGE = "script/aliasing"
OPERATORS = ("add_.Tensor", "mul.Tensor", "select.int", "view.default", "exp.default", "t.default")


def shares_memory(name: str) -> bool:
    """Return whether the schema of an operator says that its result is memory of its inputs."""
    packet, _, overload = name.partition(".")
    schema = getattr(getattr(torch.ops.aten, packet), overload)._schema
    return any(each.alias_info is not None for each in schema.returns)


@exercise(
    PAGE,
    "look",
    question="""
        Which of the `OPERATORS` return memory of their inputs? Set `sharing`, a set of names.
    """,
    stub="""
        import torch

        from minitorch2.course.exercises.aliasing import OPERATORS

        print(torch.ops.aten.add_.Tensor._schema)
        sharing = ...
    """,
    hints=("A letter in parentheses behind `Tensor` names memory. One without it is new.",),
    solution="""
        from minitorch2.course.exercises.aliasing import OPERATORS, shares_memory

        sharing = {name for name in OPERATORS if shares_memory(name)}
    """,
)
def read_schemas(sharing: set[str]) -> None:
    """Ask the schemas."""
    expected = {name for name in OPERATORS if shares_memory(name)}
    assert set(sharing) == expected, f"{sorted(sharing)} is not right: print each schema"


@exercise(
    PAGE,
    "change",
    question="""
        `first` is a view of `base`, so the write changes `base`, and the two products must not
        be merged. Change the function so that nothing writes to `base`. `first` is still a row
        plus one.
    """,
    stub="""
        import torch


        def program(a: torch.Tensor):
            base = a * 3
            first = base[0]
            twice = base * 2
            first.add_(1)
            return first, base * 2, twice
    """,
    hints=("An addition without the underscore makes a new tensor.",),
    solution="""
        import torch


        def program(a: torch.Tensor):
            base = a * 3
            first = base[0] + 1
            twice = base * 2
            return first, base * 2, twice
    """,
)
def write_to_no_view(program: Callable[[Tensor], Any]) -> None:
    """Ask the analysis about each value, and compare the results."""
    a = torch.arange(4.0).reshape(2, 2)
    first, again, twice = program(a)
    torch.testing.assert_close(first, a[0] * 3 + 1)
    torch.testing.assert_close((again, twice), (a * 6, a * 6))
    graph = jit.script(program).graph
    aliases = AliasDb(graph)
    values = {value.name: value for node in graph.nodes() for value in node.outputs}
    assert "base" in values, "keep the name `base`"
    assert not aliases.has_writers(values["base"]), "the analysis still finds a write to base"


@exercise(
    PAGE,
    "build",
    question="""
        Write `locations(points, value)`: `points` maps a value to those that it may be. Return
        the memory locations that it may be: the values at the ends, which point to nothing.
    """,
    stub="""
        def locations(points, value):
            return set(points.get(value, ()))
    """,
    hints=("Follow the arrows. A value may be reached twice, and arrows may go in a circle.",),
    solution="""
        def locations(points, value):
            seen, todo = set(), [value]
            while todo:
                here = todo.pop()
                if here not in seen:
                    seen.add(here)
                    todo += points.get(here, ())
            return {each for each in seen if not points.get(each)}
    """,
)
def follow_the_arrows(locations: Callable[..., Collection[str]]) -> None:
    """Try views of views, choices, and a circle as a loop makes it."""
    points = {
        "view": ["base"],
        "row": ["view"],
        "chosen": ["row", "other"],
        "carried": ["base", "next"],
        "next": ["carried", "fresh"],
    }
    cases = {
        "base": {"base"},
        "row": {"base"},
        "chosen": {"base", "other"},
        "next": {"base", "fresh"},
    }
    for value, expected in cases.items():
        found = set(locations(points, value))
        assert found == expected, f"{value} may be {sorted(expected)}, not {sorted(found)}"


@exercise(
    PAGE,
    "build",
    question="""
        Write `may_swap(first, second)` for two neighbours. A node is a dict of sets `makes`
        and `uses` (values), `reads` and `writes` (memory locations), and a bool `effect`
        (it prints, draws or may raise).
    """,
    stub="""
        def may_swap(first, second):
            return not first["makes"] & second["uses"]
    """,
    hints=(
        "One must not use what the other makes.",
        "One must not write what the other reads or writes. Two effects keep their order.",
    ),
    solution="""
        def blocks(one, other):
            touched = other["reads"] | other["writes"]
            return one["makes"] & other["uses"] or one["writes"] & touched


        def may_swap(first, second):
            effects = first["effect"] and second["effect"]
            return not (blocks(first, second) or blocks(second, first) or effects)
    """,
)
def swap_neighbours(may_swap: Callable[..., object]) -> None:
    """Try each rule from both sides."""

    def node(effect: bool = False, **sets: str) -> dict[str, Any]:
        names = ("makes", "uses", "reads", "writes")
        return {name: set(sets.get(name, "").split()) for name in names} | {"effect": effect}

    cases = (
        (node(makes="a"), node(uses="a"), False),
        (node(uses="a", reads="m"), node(makes="b", reads="m"), True),
        (node(writes="m"), node(reads="m"), False),
        (node(reads="m"), node(writes="m"), False),
        (node(writes="m"), node(writes="m n"), False),
        (node(writes="m"), node(reads="n"), True),
        (node(True), node(True), False),
        (node(True), node(), True),
    )
    for first, second, expected in cases:
        for pair in ((first, second), (second, first)):
            found = bool(may_swap(*pair))
            assert found is expected, f"{pair[0]} and {pair[1]}: {expected}, not {found}"
