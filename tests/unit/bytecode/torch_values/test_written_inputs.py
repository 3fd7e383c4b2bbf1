"""Writes to inputs that require grad and that other operators have made: part of the graph."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import minitorch2
from minitorch2 import stages

Program = Callable[[Tensor, Tensor], Tensor]


def multiplied(x: Tensor, w: Tensor) -> Tensor:
    x.mul_(w)
    return x + 1


def row_assigned(x: Tensor, w: Tensor) -> Tensor:
    x[1] = w
    return x * 2


def view_written(x: Tensor, w: Tensor) -> Tensor:
    x.t().add_(1)
    return x * w


def row_added(x: Tensor, w: Tensor) -> Tensor:
    row = x[0]
    row += w
    return row * 2


def activated(x: Tensor, w: Tensor) -> Tensor:
    return nn.functional.relu_(x) * w


def returned(x: Tensor, w: Tensor) -> Tensor:
    return x.sub_(w)


PROGRAMS = (multiplied, row_assigned, view_written, row_added, activated, returned)
BACKENDS = ("eager", "aot_eager", "numba")


def outcome(f: Program, make: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """The result, what the input has become, and the gradient of both."""
    w = torch.tensor([2.0, 3.0], requires_grad=True)
    x = make(w)
    result = f(x, w)
    (gradient,) = torch.autograd.grad(result.square().sum() + x.sin().sum(), w)
    return [result.detach(), x.detach(), gradient]


def made(w: Tensor) -> Tensor:
    return w * torch.arange(-2.0, 4.0).view(3, 2)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_write_to_what_another_operator_made_is_part_of_the_graph(
    program: Program, backend: str
) -> None:
    fast = minitorch2.compile(program, backend=backend, fullgraph=True)
    torch.testing.assert_close(outcome(fast, made), outcome(program, made))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_views_and_sizes_that_vary(program: Program) -> None:
    fast = minitorch2.compile(program, fullgraph=True, dynamic=True)
    for rows in (3, 5, 4):
        for make in (
            lambda w, n=rows: w * torch.arange(2.0 * n).view(n, 2),
            lambda w, n=rows: (w * torch.ones(2 * n, 2)).cos()[::2],
        ):
            torch.testing.assert_close(outcome(fast, make), outcome(program, make))


def test_a_leaf_is_refused_as_in_eager_mode() -> None:
    with stages.collect() as log:
        fast = minitorch2.compile(multiplied)
        outcome(fast, made)
        assert (log.counts["graphs"], log.counts["graph_breaks"]) == (1, 0)
    leaf, w = torch.ones(3, 2, requires_grad=True), torch.ones(2)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        fast(leaf, w)
    assert torch.equal(leaf, torch.ones(3, 2))
    torch.testing.assert_close(outcome(fast, made), outcome(multiplied, made))


def test_a_hook_set_before_the_write_sees_the_gradient_of_the_former_value() -> None:
    def hooked(f: Program) -> list[Tensor]:
        seen: list[Tensor] = []

        def make(w: Tensor) -> Tensor:
            x = made(w)
            x.register_hook(seen.append)
            return x

        return [*outcome(f, make), *seen]

    torch.testing.assert_close(hooked(minitorch2.compile(multiplied)), hooked(multiplied))


@pytest.mark.parametrize("is_written_first", [True, False])
def test_a_hook_set_inside_beside_a_write(is_written_first: bool) -> None:
    def program(x: Tensor, w: Tensor) -> Tensor:
        if is_written_first:
            x.mul_(w)
        x.register_hook(lambda gradient: gradient * 10)
        if not is_written_first:
            x.mul_(w)
        return x + 1

    torch.testing.assert_close(outcome(minitorch2.compile(program), made), outcome(program, made))


def test_gradients_asked_for_inside_beside_a_write() -> None:
    def program(x: Tensor, w: Tensor) -> Tensor:
        x.mul_(w)
        (gradient,) = torch.autograd.grad(x.sum(), w, create_graph=True)
        return x * gradient

    torch.testing.assert_close(outcome(minitorch2.compile(program), made), outcome(program, made))


def test_two_views_of_one_memory_see_each_others_writes() -> None:
    def program(x: Tensor, w: Tensor) -> Tensor:
        return both(x[0], x[1:], w)

    @minitorch2.compile
    def compiled(first: Tensor, rest: Tensor, w: Tensor) -> Tensor:
        return both(first, rest, w)

    def both(first: Tensor, rest: Tensor, w: Tensor) -> Tensor:
        rest.mul_(w)
        return first.add_(rest.sum(0)) * 2

    def fast(x: Tensor, w: Tensor) -> Tensor:
        return compiled(x[0], x[1:], w)

    torch.testing.assert_close(outcome(fast, made), outcome(program, made))


class Normalized(nn.Module):
    """A block whose activation writes to what the code in front of the break has made."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x)
        minitorch2.graph_break()
        return self.activation(x).sum()


def test_an_activation_in_place_behind_a_break_breaks_no_more() -> None:
    torch.manual_seed(0)
    model, x = Normalized(), torch.randn(3, 4)
    with stages.collect() as log:
        fast = minitorch2.compile(model)
        fast(x).backward()
    assert (log.counts["graphs"], log.counts["graph_breaks"]) == (2, 1)
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(x).backward()
    torch.testing.assert_close(found, [p.grad for p in model.parameters()])
