"""Hooks are called as in eager mode where a caller uses a part of a graph's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import minitorch2

Program = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
BACKENDS = ("eager", "aot_eager", "numba")


def two(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    return x * 2, w * 3


def hooked_inside(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    x.register_hook(lambda gradient: gradient + 1)
    return x * 2, w * 3


def the_leaf(x: Tensor) -> Tensor:
    return x


def a_product(x: Tensor) -> Tensor:
    return x * 1


def outcome(program: Program, make: Callable[[Tensor], Tensor], used: int) -> Any:
    """What hooks of the leaf and of the input see, and the gradients."""
    x, w = (torch.ones(3, requires_grad=True) for _ in range(2))
    of_leaf: list[Tensor] = []
    of_input: list[Tensor] = []
    x.register_hook(of_leaf.append)
    given = make(x)
    given.register_hook(of_input.append)
    results = program(given, w)
    results[used].sum().backward(retain_graph=True)
    (results[used].sum() + given.sum()).backward()  # the input has a gradient by another way
    return of_leaf, of_input, x.grad, w.grad


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("used", [0, 1])
@pytest.mark.parametrize("make", [the_leaf, a_product])
@pytest.mark.parametrize("program", [two, hooked_inside])
def test_no_hook_is_called_without_a_gradient(
    program: Program, make: Callable[[Tensor], Tensor], used: int, backend: str
) -> None:
    compiled = minitorch2.compile(program, backend=backend)
    for _ in range(2):
        found, wanted = (outcome(f, make, used) for f in (compiled, program))
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hook_set_inside_on_an_input_that_nobody_holds(backend: str) -> None:
    compiled = minitorch2.compile(hooked_inside, backend=backend)
    x, w = (torch.ones(3, requires_grad=True) for _ in range(2))
    compiled(x * 1, w)[1].sum().backward()
    assert x.grad is None and torch.equal(w.grad, torch.full((3,), 3.0))


class Heads(nn.Module):
    """A model of which the second head is not always trained."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.body(x).relu()
        return self.first(x), self.second(x)


def test_a_mask_on_the_gradient_of_a_head_that_is_not_trained() -> None:
    model = Heads()
    for parameter in model.parameters():
        parameter.register_hook(lambda gradient: gradient * 0.5)
    x, hooks = torch.randn(3, 4), dict(model.second.weight._backward_hooks or {})
    found = []
    for forward in (minitorch2.compile(model), model):
        model.zero_grad()
        forward(x)[0].sum().backward()
        found.append([parameter.grad for parameter in model.parameters()])
    torch.testing.assert_close(*found)
    assert model.second.weight.grad is None
    assert model.second.weight._backward_hooks == hooks, "the user's hooks are set again"


def test_a_hook_set_later_on_an_input_that_nobody_holds() -> None:
    """The object is gone when backward runs; the operator that made it still knows its hooks."""

    def run(function: Program) -> Tensor | None:
        x, w = (torch.ones(3, requires_grad=True) for _ in range(2))
        given = x.detach().requires_grad_() * 1 + x
        _, used = function(given, w)
        given.register_hook(lambda gradient: gradient + 1)
        del given
        used.sum().backward()
        return x.grad

    assert run(two) is None and run(minitorch2.compile(two)) is None
