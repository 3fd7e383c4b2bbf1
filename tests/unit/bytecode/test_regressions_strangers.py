"""What packages that nobody here had tried have shown: each test names its kind of failure."""

import functools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import minitorch2
from minitorch2 import stages
from tests.unit.bytecode.soundness.processes import run


def add(a: Any, x: torch.Tensor) -> torch.Tensor:
    return x + a


class Slotted(functools.partial):
    """Shows another `func` than the one that it calls, and is bound like a function."""

    __slots__ = ("func",)

    def __init__(self, func: Any) -> None:
        self.func = func

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self.func, instance)


class Tenfold(functools.partial):
    def __call__(self, *args: Any) -> Any:
        return super().__call__(*args) * 10


class Named(functools.partial):
    note = "noted"

    def shout(self) -> str:
        return self.note + "!"


class Bound:
    thrice = Slotted(lambda self, x: x * 3)


PARTIALS: dict[str, Callable[[], Any]] = {
    "slotted": lambda: Slotted(functools.partial(add, 3)),
    "tenfold": lambda: Tenfold(add, 3),
    "named": lambda: Named(add, 3),
    "plain": lambda: functools.partial(add, 3),
}


@pytest.mark.parametrize("name", PARTIALS)
def test_partials_of_a_subclass_do_what_their_class_says(name: str) -> None:
    """Regression: each was taken for a plain partial, by its `func`, its call and its class."""
    given, x = PARTIALS[name](), torch.ones(2)

    def program(x: torch.Tensor) -> Any:
        parts = type(given), given.__class__, len(given.args), given.func, Bound().thrice(x)
        return given(x), getattr(given, "note", "none"), *parts

    found, wanted = minitorch2.compile(program)(x), program(x)
    assert found[1:-1] == wanted[1:-1]
    torch.testing.assert_close((found[0], found[-1]), (wanted[0], wanted[-1]))


FLOATS = [name for name in dir(math) if name[0] != "_" and callable(getattr(math, name))]
NUMBERS = {"scalar": torch.tensor(2.0), "one of one": torch.ones(1, 1), "whole": torch.tensor([3])}


@pytest.mark.parametrize("number", NUMBERS)
def test_functions_of_math_make_numbers_of_tensors(number: str) -> None:
    """Regression: `math.pow` of a tensor was a tensor, with its dimensions.

    In a process of its own: what other tests do to functions of `math` lasts.
    """
    run(f"from {__name__} import compare_functions_of_math as c; c({number!r})", preamble="")


def compare_functions_of_math(number: str) -> None:
    """Check that all functions of `math` give the same of a tensor, by type and text."""
    for name in FLOATS:
        of = getattr(math, name)

        def program(x: torch.Tensor, of: Any = of) -> Any:
            results = []
            for operands in ((x,), (x, 0.5), (2, x), (x, x)):
                try:
                    results.append(of(*operands))
                except (TypeError, ValueError, ArithmeticError) as error:
                    results.append(type(error))
            return [(type(result), result) for result in results]

        x = NUMBERS[number]
        found = minitorch2.compile(program, backend="eager")(x)
        assert [kind for kind, _ in found] == [kind for kind, _ in program(x)], name
        assert str(found) == str(program(x)), name


def test_a_power_by_math_is_one_graph() -> None:
    def program(count: torch.Tensor, xs: list[torch.Tensor]) -> Any:
        return torch._foreach_mul(xs, math.pow(count + 1, 0.5)), math.pow(2, 3)

    count, xs = torch.tensor([2]), [torch.ones(2), torch.ones(3)]
    with stages.collect() as log:
        found, power = minitorch2.compile(program)(count, xs)
    torch.testing.assert_close(found, program(count, xs)[0])
    assert (type(power), power) == (float, 8.0)
    assert (log.counts["graphs"], log.counts["graph_breaks"]) == (1, 0)
