"""What programs ask about gradients of tensors that are no leaves: hooks, kept and asked for ones.

A compiled graph hands on the gradients of its inputs only. So it must end where such a tensor is
made; otherwise hooks got None, or a part of the gradient, or changed nothing.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves

import minitorch2
from minitorch2 import stages

LAYER = torch.nn.Linear(4, 4)
SEEN: list[Any] = []


def hooked_after_use(x):
    y = x * 2
    z = y.sin()
    y.register_hook(lambda gradient: gradient * 5)
    return z


def hooked_and_returned(x):
    y = LAYER(x)
    y.register_hook(lambda gradient: gradient.clamp(-0.1, 0.1))
    return torch.relu(y) + y, y


def removed(x):
    y = (x * 2).sin()
    w = y * 2
    handle = y.register_hook(lambda gradient: gradient * 7)
    z = w + y
    handle.remove()
    return z * w


def handle_returned(x):
    y = x * 2
    z = y.cos()
    return z, y.register_hook(lambda gradient: gradient * 3)


def watched(x):
    y = x.exp()
    z = y * y
    y.register_hook(lambda gradient: SEEN.append(gradient.sum().item()))
    return z


def in_a_loop(x):
    results = []
    for i in range(3):
        x = torch.tanh(x * (i + 1))
        x.register_hook(lambda gradient: gradient.clamp(-0.5, 0.5))
        results.append(x)
    return sum(results)


def part(x):
    y = x * 2
    z = y.sin()
    y.register_hook(lambda gradient: gradient * 5)
    return y * z


def in_a_call(x):
    return part(x) * part(x + 1)


def written_before(x):
    y = x * 2
    y.mul_(3)
    z = y.cos()
    y.register_hook(lambda gradient: gradient * 5)
    return z


def of_an_input(x):
    z = x.sin()
    x.register_hook(lambda gradient: gradient * 5)
    return z * x


def after_a_break(x):
    y = x * 2
    z = y * 3
    print(end="")
    y.register_hook(lambda gradient: gradient * 5)
    return z, y


def kept_after_a_break(x):
    y = x * 2
    z = y * 3
    print(end="")
    y.retain_grad()
    z.sum().backward()
    return y.grad


def kept_for_the_caller(x):
    y = x * 2
    z = y * 3
    y.retain_grad()
    return y, z


def asked_after_a_break(x):
    y = x * 2
    z = (y * y).sum()
    print(end="")
    return torch.autograd.grad(z, y, retain_graph=True)[0] * x


def no_gradient_flows(x):
    """The hook is not called; it got None, as the two tensors come from one graph."""
    y = x * 2
    z = x.sin()
    y.register_hook(lambda gradient: gradient + 5)
    return y, z


PROGRAMS = [
    hooked_after_use, hooked_and_returned, removed, handle_returned, watched, in_a_loop, in_a_call,
    written_before, of_an_input, after_a_break, kept_after_a_break, kept_for_the_caller,
    asked_after_a_break, no_gradient_flows,
]  # fmt: skip


def outcome(function: Callable[..., Any]) -> Any:
    torch.manual_seed(0)
    x = torch.randn(3, 4, requires_grad=True)
    SEEN.clear()
    result = function(x)
    tensors = [each for each in tree_leaves(result) if isinstance(each, torch.Tensor)]
    heads = [each.pow(2).sum() for each in tensors if each.requires_grad]
    for head in heads[-1:]:
        head.backward()
    kept = [each.grad for each in tensors if each.retains_grad]
    return tensors, x.grad, kept, list(SEEN)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "numba"])
@pytest.mark.parametrize("function", PROGRAMS)
def test_gradients_seen_on_the_way(
    function: Callable[..., Any], backend: str, dynamic: bool
) -> None:
    compiled = minitorch2.compile(function, backend=backend, dynamic=dynamic)
    expected = outcome(function)
    with stages.collect() as log:
        for _ in range(2):
            assert_close(outcome(compiled), expected, rtol=1e-4, atol=1e-5)
    assert log.counts["graphs"] >= 1


def test_what_follows_is_captured() -> None:
    """The graph ends where the tensor is made; its readers belong to the next graph."""
    explanation = minitorch2.explain(hooked_after_use)(torch.randn(3, 4, requires_grad=True))
    assert (explanation.graph_count, explanation.graph_break_count) == (2, 2)
