"""Exercises of the chapter on testing a compiler."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Sequence
from typing import Any

from minitorch2.course.exercise import exercise

PAGE = "testing"


def forms_with(word: str) -> int:
    """Return how many statements of the grammar contain a word."""
    # Imported here: it needs Hypothesis, which no other exercise does.
    from minitorch2.testing.programs.grammar import STATEMENTS

    return sum(word in form for form in STATEMENTS)


@exercise(
    PAGE,
    "look",
    question="""
        How many forms of statements of the grammar contain `try`, and how many `yield`? Set
        `tries` and `yields`.
    """,
    stub="""
        from minitorch2.testing.programs.grammar import STATEMENTS

        tries = ...
        yields = ...
    """,
    hints=("`STATEMENTS` are texts.",),
    solution="""
        from minitorch2.course.exercises.trust import forms_with

        tries, yields = forms_with("try"), forms_with("yield")
    """,
)
def read_the_grammar(tries: int, yields: int) -> None:
    """Count them."""
    found = forms_with("try"), forms_with("yield")
    assert (tries, yields) == found, f"{tries} and {yields} are not both right"


@exercise(
    PAGE,
    "change",
    question="""
        `agrees(function, other, make)` compares results. It misses a function that forgets
        what it should do to its argument. Change it so that it compares the arguments
        afterwards, too. `make()` makes a new argument.
    """,
    stub="""
        def agrees(function, other, make):
            return function(make()) == other(make())
    """,
    hints=("Keep both arguments, and compare them behind the calls.",),
    solution="""
        def agrees(function, other, make):
            ours, theirs = make(), make()
            return function(ours) == other(theirs) and ours == theirs
    """,
)
def compare_states(agrees: Callable[..., bool]) -> None:
    """Compare pairs that differ in results, in state, and not at all."""

    def push(items: list[int]) -> int:
        items.append(len(items))
        return len(items)

    def forgets(items: list[int]) -> int:
        return len(items) + 1

    def miscounts(items: list[int]) -> int:
        return push(items) + 1

    for other, expected in ((push, True), (forgets, False), (miscounts, False)):
        found = bool(agrees(push, other, lambda: [7, 8]))
        assert found is expected, f"push and {other.__name__}: {expected}, not {found}"


@exercise(
    PAGE,
    "build",
    question="""
        Write `shrink(items, fails)`: `fails(items)` is true. Return a shorter list for which
        it is true as well, and from which no single item can be left out.
    """,
    stub="""
        def shrink(items, fails):
            return items
    """,
    hints=("Leave out one item at a time. If the rest still fails, go on with the rest.",),
    solution="""
        def shrink(items, fails):
            place = 0
            while place < len(items):
                rest = items[:place] + items[place + 1 :]
                if fails(rest):
                    items, place = rest, 0
                else:
                    place += 1
            return items
    """,
)
def shrink_a_failure(shrink: Callable[..., Sequence[int]]) -> None:
    """Shrink lists that fail for several reasons."""
    draw = random.Random(0)
    reasons: dict[str, Callable[[Sequence[int]], bool]] = {
        "holds 3 and 7": lambda items: {3, 7} <= set(items),
        "has a sum above 20": lambda items: sum(items) > 20,
        "has a number before a smaller one": lambda items: list(items) != sorted(items),
    }
    for reason, fails in reasons.items():
        items = [*draw.sample(range(12), 12)]
        found = list(shrink(list(items), fails))
        assert fails(found), f"{found} does not fail: it must be one that {reason}"
        shorter = [found[:i] + found[i + 1 :] for i in range(len(found))]
        assert not any(map(fails, shorter)), f"{found} can be shorter: it {reason}"


@exercise(
    PAGE,
    "build",
    question="""
        Write `mutants(text)`: for each `+`, `-`, `*`, `<` and `>` in the text of a function, a
        text in which this one operator is another one (`+` and `-` change places, `*` becomes
        `+`, `<` and `>` change places). The check runs a weak test and a strong one on them.
    """,
    stub="""
        def mutants(text):
            return [text]
    """,
    hints=("Go through the places of the text; do not change two at a time.",),
    solution="""
        OTHER = {"+": "-", "-": "+", "*": "+", "<": ">", ">": "<"}


        def mutants(text):
            places = (i for i, letter in enumerate(text) if letter in OTHER)
            return [text[:i] + OTHER[text[i]] + text[i + 1 :] for i in places]
    """,
)
def plant_bugs(mutants: Callable[[str], Sequence[str]]) -> None:
    """Count the mutants that tests find."""
    text = "def f(x, y):\n    if x < y:\n        return y * 2 + x\n    return x - y\n"
    found = list(mutants(text))
    assert len(set(found)) == 4 and text not in found, f"four mutants, not {len(set(found))}"

    def killed(test: Callable[[Any], bool]) -> int:
        count = 0
        for mutant in found:
            names: dict[str, Any] = {}
            exec(compile(ast.parse(mutant), "<mutant>", "exec"), names)
            count += not test(names["f"])
        return count

    weak = killed(lambda f: f(0, 0) == 0)
    strong = killed(lambda f: (f(1, 3), f(3, 1)) == (7, 2))
    assert (weak, strong) == (0, 4), f"the weak test finds {weak}, the strong one {strong} of 4"
