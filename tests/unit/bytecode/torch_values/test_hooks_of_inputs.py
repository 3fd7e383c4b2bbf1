"""Hooks on inputs that are no leaves: other operators have made them, outside of the graph.

Each is one graph. A hook sees the whole gradient, with what flows past the compiled function.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.testing import assert_close

import minitorch2
from minitorch2 import stages


def doubling(seen: list[Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda gradient: seen.append(gradient.clone()) or gradient * 2


def kept(x, view, seen):
    handle = x.register_hook(doubling(seen))
    return x.sin() + view.sum(), handle


def on_a_view(x, view, seen):
    handle = view.register_hook(doubling(seen))
    return x.sin() * view.sum(), handle


def behind_its_readers(x, view, seen):
    y = x.sin() * view.sum()
    with torch.no_grad():
        return y, x.register_hook(doubling(seen))


def removed_inside(x, view, seen):
    first = x.register_hook(doubling(seen))
    second = x.register_hook(lambda gradient: gradient + 1)
    first.remove()
    return x.exp() + view.sum(), second


def with_a_kept_gradient(x, view, seen):
    x.retain_grad()
    return x.sin() + view.sum(), x.register_hook(doubling(seen))


def asked_inside(x, view, seen):
    handle = x.register_hook(doubling(seen))
    (gradient,) = torch.autograd.grad(x.exp().sum(), x)
    return x * gradient, handle


ONE_GRAPH = [
    kept,
    on_a_view,
    behind_its_readers,
    removed_inside,
    with_a_kept_gradient,
    asked_inside,
]


def written_before(x, view, seen):
    x.mul_(2)
    return x.sin(), x.register_hook(doubling(seen))


def written_later(x, view, seen):
    handle = x.register_hook(doubling(seen))
    x.mul_(2)
    return x.sin(), handle


def written_later_through_a_view(x, view, seen):
    handle = x.register_hook(doubling(seen))
    view.mul_(3)
    return x.sin(), handle


def outcome(function: Callable[..., Any], removes: bool) -> Any:
    torch.manual_seed(0)
    weight = torch.randn(3, requires_grad=True)
    x, seen = weight * 3, []
    y, handle = function(x, x[1:], seen)
    loss = y.sum() + x.cos().sum()  # a part of the gradient flows past the compiled function
    if removes:
        handle.remove()
    loss.backward()
    return y, weight.grad, x.grad if x.retains_grad else None, seen


@pytest.mark.parametrize("removes", [False, True])
@pytest.mark.parametrize("backend", ["eager", "numba"])
@pytest.mark.parametrize(
    "function", [*ONE_GRAPH, written_before, written_later, written_later_through_a_view]
)
def test_gradients_and_what_hooks_see(function, backend, removes) -> None:
    compiled = minitorch2.compile(function, backend=backend)
    with stages.collect() as log:
        for _ in range(2):
            assert_close(outcome(compiled, removes), outcome(function, removes))
    if function in ONE_GRAPH:
        assert (log.counts["graphs"], log.counts["graph_breaks"]) == (1, 0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_hook_from_outside_is_called_once_where_backward_is_inside(backend) -> None:
    """Regression: the graph called it, and the engine that ran the graph called it, too."""

    def step(x):
        x.square().sum().backward()
        return x.sin()

    def trained(function: Callable[..., Any]) -> Any:
        x, seen = torch.arange(3.0, requires_grad=True), []
        handle = x.register_hook(doubling(seen))
        function(x)
        handle.remove()
        function(x)
        return x.grad, seen

    compiled = minitorch2.compile(step, backend=backend, fullgraph=True)
    assert_close(trained(compiled), trained(step))
