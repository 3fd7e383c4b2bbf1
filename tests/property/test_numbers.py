"""Numbers that compare equal, or with nothing, are told apart by all capture systems.

``0.0 == -0.0``, ``1 == 1.0 == True``, and a NaN equals nothing: guards, keys of caches and steps
that are known must not confuse them, wherever a program finds the number.
"""

import math
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch2
from minitorch2 import jit, lazy

Number = int | float | complex
HELD = SimpleNamespace(number=0)
OTHER = 0

NUMBERS = st.sampled_from(
    (0.0, -0.0, 0, False, 1, 1.0, True, -1.0, math.nan, -math.nan, math.inf, -math.inf, 2.5)
)


def by_argument(x: torch.Tensor, number: Any) -> Any:
    return 1 / (x * number), torch.full((2,), number), torch.clamp(x, number), number


def by_container(x: torch.Tensor, number: Any) -> Any:
    return inside(x, (number, {"key": [number]}))


def inside(x: torch.Tensor, numbers: Any) -> Any:
    return 1 / (x * numbers[0]), torch.sub(x, x, alpha=1) * numbers[1]["key"][0]


def by_attribute(x: torch.Tensor, number: Any) -> Any:
    return 1 / (x * HELD.number), HELD.number


def by_global(x: torch.Tensor, number: Any) -> Any:
    return 1 / (x * OTHER), -OTHER * x


def by_complex(x: torch.Tensor, number: Any) -> Any:
    return torch.view_as_real(x * complex(number, -number))


PROGRAMS = st.sampled_from((by_argument, by_container, by_attribute, by_global, by_complex))


def deferred(function: Callable[..., Any], *args: Any) -> Any:
    with lazy.lazily(eager_first=False):
        return function(*args)


SYSTEMS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "captured": lambda f: minitorch2.compile(f, backend="eager"),
    "captured for all sizes": lambda f: minitorch2.compile(f, backend="eager", dynamic=True),
    "compiled": minitorch2.compile,
    "deferred": lambda f: partial(deferred, f),
}


def bits(tree: Any) -> Any:
    """Return a result as text that tells apart all that a program can; NaNs are all alike."""
    if isinstance(tree, torch.Tensor):
        return f"{tree.dtype} {[bits(number) for number in lazy.to_eager(tree).flatten().tolist()]}"
    return [*map(bits, tree)] if isinstance(tree, tuple) else repr(tree)


def outcome(function: Callable[..., Any], number: Number) -> Any:
    try:
        return bits(function(torch.tensor([1.0, -2.0]), number))
    except (RuntimeError, TypeError) as error:
        return type(error)


@settings(max_examples=60)
@given(PROGRAMS, st.sampled_from(sorted(SYSTEMS)), st.lists(NUMBERS, min_size=3, max_size=7))
def test_each_number_is_itself(
    program: Callable[..., Any], system: str, numbers: list[Number]
) -> None:
    global OTHER
    lazy.reset()
    fast = SYSTEMS[system](program)
    for number in numbers:
        HELD.number = OTHER = number
        assert outcome(fast, number) == outcome(program, number), number


@settings(max_examples=10)
@given(st.lists(st.sampled_from((0.0, -0.0, 1.0, math.inf, math.nan)), min_size=3, max_size=6))
def test_each_number_of_a_script_is_itself(numbers: list[float]) -> None:
    global OTHER
    for program in (_scripted, _scripted_global):
        fast = jit.script(program)
        for number in numbers:
            OTHER = number
            assert outcome(fast, number) == outcome(program, number), number


def _scripted(x: torch.Tensor, number: float) -> tuple[torch.Tensor, torch.Tensor, float]:
    return 1 / (x * number), torch.full([2], number), number


def _scripted_global(x: torch.Tensor, number: float) -> torch.Tensor:
    return 1 / (x * OTHER)
