"""Forward mode of autograd: levels inside are captured, dual tensors from outside keep tangents."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad

import minitorch2
from minitorch2 import stages

BACKENDS = ["eager", "aot_eager_decomp_partition", "numba"]
W = torch.linspace(-1, 1, 16).reshape(4, 4)


class Tripled(torch.autograd.Function):
    """A sine whose derivative in forward mode is three times too large."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_forward(x)
        return x.sin()

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return 3 * tangent * x.cos()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def context(x, t):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        y = (dual @ W).sin()
        y.mul_(dual)
        found = forward_ad.unpack_dual(y)
    return found.primal, found.tangent, x + 1


def calls(x, t):
    forward_ad.enter_dual_level()
    _, tangent = forward_ad.unpack_dual(forward_ad.make_dual(x, t).exp())
    forward_ad.exit_dual_level()
    return tangent


def without_tangent(x, t):
    with forward_ad.dual_level():
        found = forward_ad.unpack_dual(x * t)
        return found.primal, found.tangent is None


def own_rule(x, t):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(Tripled.apply(forward_ad.make_dual(x, t))).tangent


def of_views(x, t):
    """A number has zeros without memory for a tangent."""
    y = x.clone()
    with forward_ad.dual_level() as level:
        dual = forward_ad.make_dual(y, t, level=level)
        rows = dual.view(-1) * 2
        y[0] *= 3
        found = forward_ad.unpack_dual(rows - dual[0, 0], level=level)
    return found.tangent, found.primal


def written(x, t):
    y = x.detach().clone()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(y, t)
        dual.mul_(2)
        dual[0] = dual[1] * 3
        return forward_ad.unpack_dual(dual).tangent, y, x + 1


def of_a_gradient(x, t):
    """The kernel of the tangent once read zeros that have no memory."""
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        (gradient,) = torch.autograd.grad((dual**3).sum(), dual, create_graph=True)
        return forward_ad.unpack_dual(gradient).tangent


def of_parameters(x, t):
    layer = torch.nn.functional.linear
    with forward_ad.dual_level():
        weight = forward_ad.make_dual(W, torch.ones_like(W))
        return forward_ad.unpack_dual(layer(x, weight).relu()).tangent


@forward_ad.dual_level()
def decorated(x, t):
    return forward_ad.unpack_dual(forward_ad.make_dual(x, t).exp())[1]


def outside_of_levels(x, t):
    primal, tangent = forward_ad.unpack_dual(x)
    return primal * 2, tangent, primal is x


PROGRAMS = [
    context, calls, without_tangent, own_rule, of_views, written, of_a_gradient, of_parameters,
    decorated, outside_of_levels,
]  # fmt: skip


def agree(function: Callable[..., Any], backend: str, **options: Any) -> stages.StageLog:
    """Values and gradients are eager's; the level is left."""
    compiled = minitorch2.compile(function, backend=backend, **options)
    found = []
    with stages.collect() as log:
        for each in (compiled, compiled, function):
            torch.manual_seed(0)
            x, t = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4)
            result = each(x, t)
            tensors = [r for r in torch.utils._pytree.tree_leaves(result) if torch.is_tensor(r)]
            total = sum(r.pow(2).sum() for r in tensors)
            found.append((result, torch.autograd.grad(total, x)))
    torch.testing.assert_close(found[0], found[2])
    torch.testing.assert_close(found[1], found[2])
    assert forward_ad._current_level == -1
    return log


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", PROGRAMS)
def test_one_graph(function: Callable[..., Any], backend: str, dynamic: bool) -> None:
    log = agree(function, backend, fullgraph=True, dynamic=dynamic)
    assert log.counts["graphs"] == 1


def broken(x, t):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        print(end="")
        y = dual.sin() * 2
        return forward_ad.unpack_dual(y).tangent + 1


def escaping(x, t):
    y = x * 2
    with forward_ad.dual_level():
        return forward_ad.make_dual(y, t).exp()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [broken, escaping])
def test_no_graph_ends_inside_of_a_level(function: Callable[..., Any], backend: str) -> None:
    """The break is in front of the level; what follows it runs in Python, with its tangents."""
    log = agree(function, backend)
    assert log.counts["graph_breaks"] <= 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("before", [False, True])
def test_dual_tensors_from_outside_keep_their_tangents(backend: str, before: bool) -> None:
    """A graph compiled before, or at that call, once lost the tangent without a word."""
    x, t = torch.randn(3, 4), torch.randn(3, 4)
    compiled = minitorch2.compile(lambda x: x.sin() * 2, backend=backend)
    if before:
        compiled(x)
    with forward_ad.dual_level():
        found = forward_ad.unpack_dual(compiled(forward_ad.make_dual(x, t)))
        torch.testing.assert_close(found.tangent, x.cos() * 2 * t)
    torch.testing.assert_close(compiled(x), x.sin() * 2)
    torch.testing.assert_close(torch.func.jvp(compiled, (x,), (t,))[1], x.cos() * 2 * t)


@pytest.mark.parametrize("backend", BACKENDS)
def test_zeros_without_memory(backend: str) -> None:
    """Kernels once read their memory, of which there is none: the process ended."""
    zeros = torch._efficientzerotensor((3, 4))
    compiled = minitorch2.compile(lambda x: x.sin() + 1, backend=backend)
    for given in (zeros, torch.zeros(3, 4), zeros):
        torch.testing.assert_close(compiled(given), torch.ones(3, 4))
    made = minitorch2.compile(
        lambda x: torch._efficientzerotensor((3, 4)) + x, backend=backend, fullgraph=True
    )
    torch.testing.assert_close(made(torch.ones(3, 4)), torch.ones(3, 4))
