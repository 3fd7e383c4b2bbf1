"""Exercises of the chapter on deferred execution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from minitorch2 import lazy
from minitorch2.config import patch
from minitorch2.course.exercise import exercise

PAGE = "layers/lazy"


def steps(x: Tensor, times: int) -> Tensor:
    """Return the last result of a loop that looks at a number in each turn."""
    for _ in range(times):
        x = torch.sin(x) * 2
        if x.sum().item() > 100:
            break
    return x


def barriers(function: Callable[..., Any], *inputs: Any) -> int:
    """Return how often a step ends while a function runs lazily."""
    lazy.reset()
    with patch(backend="eager"), lazy.lazily():
        function(*inputs)
    found = lazy.metrics().counts.barriers
    return sum(found.values())


@exercise(
    PAGE,
    "look",
    question="""
        How many steps end while `steps(torch.ones(2), 3)` runs lazily, the end of the region
        included? Set `ends`.
    """,
    stub="""
        from minitorch2.course.exercises.lazy_steps import steps

        ends = ...
    """,
    hints=("`item` needs data, so it ends a step.", "`lazy.metrics()` lists all barriers."),
    solution="""
        import torch

        from minitorch2.course.exercises.lazy_steps import barriers, steps

        ends = barriers(steps, torch.ones(2), 3)
    """,
)
def count_barriers(ends: int) -> None:
    """Count them."""
    found = barriers(steps, torch.ones(2), 3)
    assert ends == found, f"{ends} is not the number of barriers"


@exercise(
    PAGE,
    "change",
    question="""
        `train` looks at the loss in each step. Change it so that it looks at all of them at
        the end, once. The result is the list of losses as numbers.
    """,
    stub="""
        def train(x, times):
            losses = []
            for _ in range(times):
                x = x * 0.5
                losses.append(x.square().sum().item())
            return losses
    """,
    hints=("Keep tensors in the list.", "`torch.stack(losses).tolist()` is one look at data."),
    solution="""
        import torch


        def train(x, times):
            losses = []
            for _ in range(times):
                x = x * 0.5
                losses.append(x.square().sum())
            return torch.stack(losses).tolist()
    """,
)
def look_once(train: Callable[[Tensor, int], list[float]]) -> None:
    """Compare the losses, and count barriers."""
    x = torch.tensor([2.0, 4.0])
    assert train(x, 3) == [5.0, 1.25, 0.3125], f"the losses are {train(x, 3)}"
    few, many = barriers(train, x, 2), barriers(train, x, 6)
    assert few == many, f"two turns have {few} barriers, six turns {many}"


@exercise(
    PAGE,
    "build",
    question="""
        Write the class `Promise`: `Promise(number)` can be added to and multiplied by another
        one without computing. `value()` computes what is needed, each operation at most once,
        however often it is used. `RUN` counts operations that were computed.
    """,
    stub="""
        RUN = []


        class Promise:
            def __init__(self, number):
                self.number = number

            def __add__(self, other):
                RUN.append("+")
                return Promise(self.number + other.number)

            def __mul__(self, other):
                RUN.append("*")
                return Promise(self.number * other.number)

            def value(self):
                return self.number
    """,
    hints=(
        "A promise keeps an operation and its operands, or a number.",
        "When it is computed, keep the number and forget the operands.",
    ),
    solution="""
        import operator

        RUN = []


        class Promise:
            def __init__(self, number=None, work=None):
                self.number, self.work = number, work

            def __add__(self, other):
                return Promise(work=(operator.add, self, other))

            def __mul__(self, other):
                return Promise(work=(operator.mul, self, other))

            def value(self):
                if self.work is not None:
                    operation, left, right = self.work
                    self.number, self.work = operation(left.value(), right.value()), None
                    RUN.append(operation)
                return self.number
    """,
)
def defer_arithmetic(Promise: Callable[[int], Any], RUN: list[Any]) -> None:
    """Count operations before and after somebody looks."""
    RUN.clear()
    a, b = Promise(2), Promise(3)
    shared = a * b
    total = shared + shared
    unused = total * total
    assert not RUN, "something has run before anybody looked"
    assert total.value() == 12, f"2 * 3 + 2 * 3 is 12, not {total.value()}"
    assert len(RUN) == 2, f"a product and a sum are needed, you have run {len(RUN)}"
    assert unused.value() == 144 and len(RUN) == 3, "what is known is not computed again"


@exercise(
    PAGE,
    "build",
    question="""
        Write the class `Trie`: `walk(operators)` follows a sequence of names from the root,
        adds what is missing, and returns how many of them it has known. `places` counts the
        places, the root not included.
    """,
    stub="""
        class Trie:
            def __init__(self):
                self.seen, self.places = set(), 0

            def walk(self, operators):
                known = tuple(operators) in self.seen
                self.seen.add(tuple(operators))
                return len(operators) if known else 0
    """,
    hints=("A place is a dict from a name to the next place.", "Sequences share their fronts."),
    solution="""
        class Trie:
            def __init__(self):
                self.root, self.places = {}, 0

            def walk(self, operators):
                here, known = self.root, 0
                for name in operators:
                    if name in here:
                        known += 1
                    else:
                        here[name] = {}
                        self.places += 1
                    here = here[name]
                return known
    """,
)
def walk_a_trie(Trie: Callable[[], Any]) -> None:
    """Walk steps that share a front."""
    trie = Trie()
    walks: tuple[tuple[Sequence[str], int, int], ...] = (
        (("mul", "add", "sin"), 0, 3),
        (("mul", "add", "sin"), 3, 3),
        (("mul", "add", "cos", "sin"), 2, 5),
        (("sin",), 0, 6),
        (("mul",), 1, 6),
    )
    for operators, known, places in walks:
        found = trie.walk(operators), trie.places
        assert found == (known, places), f"{operators}: {(known, places)}, not {found}"
