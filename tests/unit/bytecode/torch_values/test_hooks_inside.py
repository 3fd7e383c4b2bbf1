"""Hooks on gradients in functions that run backward themselves: one graph, and Python's effects.

Such a hook need not be a graph. It is called when the engine finds the gradient, as in eager, and
may change it.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import minitorch2
from minitorch2 import stages

Program = Callable[[nn.Module, list[Any], torch.Tensor], Any]
PROGRAMS: list[Program] = []


def program(function: Program) -> Program:
    """Register a program; it takes a model, a list of what hooks have seen, and a tensor."""
    PROGRAMS.append(function)
    return function


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        return self.last(x + self.inner(x))


def trained(net, x):
    loss = net(x).square().mean()
    loss.backward()
    return loss.detach()


@program
def module_hook_that_sees(net, seen, x):
    handles = [
        module.register_full_backward_hook(
            lambda module, before, behind: seen.append(
                (type(module).__name__, behind[0].norm(), before[0] is None)
            )
        )
        for module in (net, net.inner, net.inner[0], net.last)
    ]
    loss = trained(net, x)
    for handle in handles:
        handle.remove()
    return loss


@program
def module_hook_that_changes(net, seen, x):
    def halve(module, before, behind):
        seen.append(behind[0].sum())
        return tuple(None if each is None else each * 0.5 for each in before)

    with net.last.register_full_backward_hook(halve):
        return trained(net, x)


@program
def several_hooks_that_change(net, seen, x):
    handles = [
        net.inner.register_full_backward_pre_hook(lambda module, behind: (behind[0] + 0.25,)),
        net.inner[1].register_full_backward_hook(lambda module, before, behind: (before[0] * 3,)),
        net.last.register_full_backward_hook(lambda m, b, behind: seen.append(behind[0].sum())),
        net.last.register_full_backward_hook(lambda module, before, behind: (before[0] * 0.5,)),
    ]
    loss = trained(net, x)
    for handle in handles:
        handle.remove()
    return loss


@program
def order_among_hooks_of_leaves(net, seen, x):
    handles = [
        *(p.register_hook(lambda g, n=n: seen.append(n)) for n, p in net.named_parameters()),
        *(
            p.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum()))
            for p in net.parameters()
        ),
    ]
    hidden = net.inner(x)
    hidden.register_hook(lambda g: seen.append("hidden") or g * 2)
    hidden.retain_grad()
    loss = net.last(x + hidden).square().mean()
    loss.backward()
    for handle in handles:
        handle.remove()
    return hidden.grad, loss.detach()


@program
def grad_mode_inside_a_hook(net, seen, x):
    def update(gradient):
        seen.append(torch.is_grad_enabled())
        net.last.weight.sub_(gradient.mean())

    hidden = net.inner(x)
    handle = hidden.register_hook(update)
    loss = hidden.square().sum()
    loss.backward()
    handle.remove()
    return loss.detach()


@program
def hook_that_raises(net, seen, x):
    """Regression: gradients stayed off behind it."""

    def refuse(gradient):
        seen.append(gradient.sum())
        raise ValueError

    hidden = net.inner(x)
    hidden.register_hook(refuse)
    try:
        hidden.sum().backward()
    except ValueError:
        return torch.is_grad_enabled(), trained(net, x)


@program
def two_passes(net, seen, x):
    hidden = net.inner(x)
    hidden.register_hook(lambda g: seen.append(len(seen)) or g * len(seen))
    loss = net.last(hidden).square().mean()
    loss.backward(retain_graph=True)
    loss.backward()
    return loss.detach()


@program
def seen_by_autograd_grad(net, seen, x):
    hidden = net.inner(x)
    hidden.register_hook(lambda g: seen.append(g.detach().sum()) or g * 2)
    loss = net.last(hidden).square().mean()
    at_hidden, at_weight = torch.autograd.grad(
        loss, [hidden, net.inner[0].weight], create_graph=True
    )
    return at_hidden.detach(), at_weight.detach()


@program
def hook_that_removes_itself(net, seen, x):
    hidden = net.inner(x)
    handle = hidden.register_hook(lambda g: seen.append(1) or handle.remove())
    loss = hidden.square().sum()
    loss.backward(retain_graph=True)
    loss.backward()
    return loss.detach()


@program
def hook_of_all_modules(net, seen, x):
    """Regression: hooks of all modules that the program itself had set were forgotten."""
    register = torch.nn.modules.module.register_module_full_backward_hook
    with register(lambda module, before, behind: seen.append(type(module).__name__)):
        return trained(net, x)


def outcome(function: Program, run: Callable[..., Any]) -> Any:
    torch.manual_seed(0)
    net, seen, results = Residual(), [], []
    called = run(function)
    for rows in (3, 3, 5):
        x = torch.linspace(-1, 1, rows * 4).view(rows, 4).requires_grad_()
        results.append((called(net, seen, x), x.grad))
    return results, seen, [p.grad for p in net.parameters()], list(net.parameters())


def check_one_graph(function: Program, **options: Any) -> None:
    expected = outcome(function, lambda f: f)
    with stages.collect() as log:
        given = outcome(function, lambda f: minitorch2.compile(f, fullgraph=True, **options))
    assert_same(given, expected)
    assert log.counts["graph_breaks"] == log.counts["frames_as_is"] == 0


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", PROGRAMS)
def test_hooks_are_called_in_one_graph(function, backend) -> None:
    check_one_graph(function, backend=backend)


@pytest.mark.parametrize("function", [module_hook_that_sees, several_hooks_that_change])
def test_kernels_with_hooks(function) -> None:
    check_one_graph(function, backend="numba", dynamic=True)


def hook_that_prints(net, seen, x):
    hidden = net.inner(x)
    hidden.register_hook(lambda g: print("gradient", tuple(g.shape)))
    loss = hidden.square().sum()
    loss.backward()
    return loss.detach()


def test_a_hook_that_prints_breaks_the_graph(capsys) -> None:
    expected = outcome(hook_that_prints, lambda f: f), capsys.readouterr().out
    compiled = outcome(hook_that_prints, lambda f: minitorch2.compile(f, backend="eager"))
    assert_same((compiled, capsys.readouterr().out), expected)


def assert_same(given: Any, expected: Any) -> None:
    if isinstance(expected, torch.Tensor):
        assert_close(given, expected)
    elif isinstance(expected, list | tuple):
        assert len(given) == len(expected)
        for own, other in zip(given, expected, strict=True):
            assert_same(own, other)
    else:
        assert given == expected


def test_a_changed_gradient_frees_the_history_all_the_same() -> None:
    def twice(x):
        hidden = x.sin()
        hidden.register_hook(lambda g: SEEN.append(1) or g * 2)
        loss = hidden.square().sum()
        loss.backward()
        loss.backward()

    for run in (twice, minitorch2.compile(twice, backend="aot_eager")):
        with pytest.raises(RuntimeError, match="a second time"):
            run(torch.ones(3, requires_grad=True))


SEEN: list[int] = []
