"""torchdiffeq: the right-hand side compiled, and whole solvers compiled with it inside."""

import pytest
import torch
from torch import nn

import minitorch2
from minitorch2 import stages

torchdiffeq = pytest.importorskip("torchdiffeq")
TIMES = torch.linspace(0, 1, 10)


class Field(nn.Module):
    """The right-hand side of y' = f(t, y)."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))

    def forward(self, t, y):
        return self.net(y) * (1 + t)


def solver(field, method):
    """The function from the state at the beginning to the states at all times."""
    return lambda y: torchdiffeq.odeint(field, y, TIMES, method=method)


def trajectory(solve, field, rows):
    """The solution, and the gradients of its mean square."""
    field.zero_grad()
    y = solve(torch.ones(rows, 2))
    y.square().mean().backward()
    return [y.detach(), *(p.grad.clone() for p in field.parameters())]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_a_compiled_field_is_solved_as_in_eager_mode(method):
    field = Field()
    with stages.collect() as log:
        fast = minitorch2.compile(field)
        for rows in (1, 4, 7):
            found = trajectory(solver(fast, method), field, rows)
            wanted = trajectory(solver(field, method), field, rows)
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    assert (log.counts["graphs"], log.counts["graph_breaks"]) == (4, 0)


@pytest.mark.slow
def test_a_solver_with_fixed_steps_may_be_compiled_whole():
    field = Field()
    with stages.collect() as log:
        fast = minitorch2.compile(solver(field, "rk4"))
        for rows in (1, 2, 3):
            found = trajectory(fast, field, rows)
            wanted = trajectory(solver(field, "rk4"), field, rows)
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    assert log.counts["graph_breaks"] > 0, "the solver compares times, which are tensors"
