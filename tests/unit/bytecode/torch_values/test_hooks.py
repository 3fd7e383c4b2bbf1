"""What programs ask about gradients of tensors that are no leaves: hooks, kept and asked for ones.

A hook that is a graph is a node of the graph. A compiled graph hands on the gradients of its inputs
only. So for other hooks it must end where such a tensor is made; otherwise hooks got None, or a
part of the gradient, or changed nothing.
"""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
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


def two_kept_for_the_caller(x):
    """The gradient of the first flows through the second, too."""
    y = x.sin()
    z = y.sin()
    y.retain_grad()
    z.retain_grad()
    return y, z


def kept_behind_its_hook(x):
    y = x.sin()
    y.register_hook(lambda gradient: gradient * 2)
    y.retain_grad()
    return x * 3, y


def hooked_around_a_break(x):
    y = x.sin()
    y.register_hook(lambda gradient: gradient * 2)
    print(end="")
    y.register_hook(lambda gradient: gradient + 1)
    y.retain_grad()
    return x * 3, y


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


def changed_later(x):
    """The hook sees the last value of the variable."""
    factor = 2.0
    y = x.sin()
    y.register_hook(lambda gradient: gradient * factor)
    factor = 5.0
    return y * 3


def masked(x):
    y = x.sin()
    mask = (x > 0).float()
    y.register_hook(lambda gradient: gradient * mask)
    return (y * y).sum()


def trained_and_removed(x):
    y = x.sin()
    handle = y.register_hook(lambda gradient: gradient * 4)
    (y * y).sum().backward()
    handle.remove()
    return x.grad + 1


def written_gradient(x):
    def triple(gradient):
        gradient.mul_(3)

    y = x.sin()
    y.register_hook(triple)
    return y * y


def view_hooked(x):
    view = x.sin().view(-1)
    view.register_hook(lambda gradient: gradient * 2)
    return view[2:]


def view_and_base(x):
    base = x.sin()
    view = base.view(-1)
    view.register_hook(lambda gradient: gradient * 2)
    return base, view[2:]


def written_after(x):
    y = x.sin()
    y.register_hook(lambda gradient: gradient * 2)
    y.mul_(x)
    return y


def several_hooks(x):
    y = x.sin()
    y.register_hook(lambda gradient: gradient * 2)
    y.register_hook(lambda gradient: gradient + 1)
    with y.register_hook(lambda gradient: gradient - 100):
        pass
    return y * y


def gradient_inside(x):
    y = x.sin()
    y.register_hook(lambda gradient: gradient * 2)
    return torch.autograd.grad((y * y).sum(), x, create_graph=True)[0]


def kept_while_asked(x):
    """`torch.autograd.grad` keeps the gradients between the outputs and what it is asked for."""
    y = x * 2
    beside = x * 3
    y.retain_grad()
    beside.retain_grad()
    loss = (y * y * beside).sum()
    (first,) = torch.autograd.grad(loss, [y], retain_graph=True)
    before = y.grad, beside.grad
    (second,) = torch.autograd.grad(loss, [x])
    assert before[1] is None
    return first, second, before[0], y.grad, beside.grad


def kept_beside_the_inputs_of_backward(x):
    y = x * 2
    y.retain_grad()
    leaf = y.detach().requires_grad_()
    part = leaf * 3
    part.retain_grad()
    ((y * y).sum() + part.sum()).backward(inputs=[leaf])
    assert y.grad is None
    return leaf.grad, part.grad


def asked_whether_it_keeps(x):
    h = x * 1
    print(end="")
    before = h.retains_grad
    h.retain_grad()
    y = h * 2
    return y * (1 + h.retains_grad) * (1 + y.retains_grad + before)


ONE_GRAPH = [
    hooked_after_use, hooked_and_returned, removed, in_a_loop, in_a_call, written_before, masked,
    of_an_input, trained_and_removed, written_gradient, view_hooked, written_after, several_hooks,
    gradient_inside, kept_while_asked, kept_beside_the_inputs_of_backward,
]  # fmt: skip

PROGRAMS = [
    *ONE_GRAPH, handle_returned, watched, after_a_break, kept_after_a_break,
    kept_for_the_caller, two_kept_for_the_caller, kept_behind_its_hook, hooked_around_a_break,
    asked_after_a_break, no_gradient_flows, changed_later, view_and_base, asked_whether_it_keeps,
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
    if function in ONE_GRAPH:
        assert (log.counts["graphs"], log.counts["graph_breaks"]) == (1, 0)
    assert log.counts["graphs"] >= 1


def test_what_follows_is_captured() -> None:
    """The graph ends where the tensor is made; its readers belong to the next graph."""
    explanation = minitorch2.explain(handle_returned)(torch.randn(3, 4, requires_grad=True))
    assert (explanation.graph_count, explanation.graph_break_count) == (2, 1)


def test_kept_gradients_of_two_results() -> None:
    """One break, where the first is made: both are kept, and their gradients are whole."""
    explanation = minitorch2.explain(two_kept_for_the_caller)(torch.ones(2, requires_grad=True))
    assert (explanation.graph_count, explanation.graph_break_count) == (2, 1)


def test_an_input_that_keeps_its_gradient_ends_no_graph() -> None:
    def kept(h):
        h.retain_grad()
        return h.sin() + h

    def gradients(function: Callable[..., Any]) -> Any:
        x = torch.arange(3.0, requires_grad=True)
        h = x * 2
        function(h).sum().backward()
        return x.grad, h.grad

    compiled = minitorch2.compile(kept, backend="aot_eager", fullgraph=True)
    assert_close(gradients(compiled), gradients(kept))


def test_hooks_of_an_input_change_what_autograd_grad_returns() -> None:
    def asked(x):
        return torch.autograd.grad((x * x).sum(), [x])[0]

    x = torch.arange(3.0, requires_grad=True)
    compiled = minitorch2.compile(asked, backend="aot_eager", fullgraph=True)
    assert_close(compiled(x), asked(x))
    handle = x.register_hook(lambda gradient: gradient * 7)
    assert_close(compiled(x), asked(x))
    handle.remove()
    assert_close(compiled(x), asked(x))


def test_hook_of_a_second_derivative() -> None:
    def squared(x):
        y = x * x
        y.register_hook(lambda gradient: gradient * 3)
        return y * y

    def twice(function: Callable[..., Any]) -> torch.Tensor:
        x = torch.arange(3.0, requires_grad=True)
        (first,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        return torch.autograd.grad(first.sum(), x)[0]

    compiled = minitorch2.compile(squared, backend="aot_eager", fullgraph=True)
    assert_close(twice(compiled), twice(squared))


# Hooks of leaves and of modules that the captured code sets ----------------------------------------


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def halve(parameter):
    parameter.grad.mul_(0.5)


def scaled(factor, gradient):
    return gradient * factor


def leaf_hook_that_stays(net, seen, x):
    handle = net[0].weight.register_hook(lambda gradient: seen.append(gradient.norm()))
    return net(x).square().mean(), handle


def leaf_hook_of_a_partial_function(net, seen, x):
    return net(x).square().mean(), net[2].bias.register_hook(functools.partial(scaled, 3.0))


def leaf_hook_removed_before_backward(net, seen, x):
    handle = net[0].weight.register_hook(lambda gradient: gradient * 7)
    loss = net(x).square().mean()
    handle.remove()
    return loss, None


def hooks_behind_accumulation(net, seen, x):
    handles = [p.register_post_accumulate_grad_hook(halve) for p in net.parameters()]
    return net(x).square().mean(), handles


def hooks_around_backward(net, seen, x):
    handles = [
        p.register_hook(lambda gradient: gradient.clamp(-0.1, 0.1)) for p in net.parameters()
    ]
    net(x).square().mean().backward()
    for handle in handles:
        handle.remove()
    return net(x).square().mean(), None


def forward_hook_that_stays(net, seen, x):
    handle = net[2].register_forward_hook(lambda module, args, result: result * 0.5)
    return net(x).square().mean(), handle


def forward_hooks_removed(net, seen, x):
    """Regression: hooks that the captured code had set on a module were not called."""
    before = net[2].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    behind = net[0].register_forward_hook(lambda module, args, result: seen.append(result.sum()))
    loss = net(x).square().mean()
    before.remove()
    behind.remove()
    return loss + net(x).mean(), None


def forward_hooks_with_arguments(net, seen, x):
    with net.register_forward_hook(
        lambda module, args, named, result: result * len(named), with_kwargs=True, prepend=True
    ):
        return net(input=x).square().mean() + x.mean(), None


def hook_of_a_new_module(net, seen, x):
    tanh = nn.Tanh()
    tanh.register_forward_hook(lambda module, args, result: result * 2)
    return tanh(net(x)).mean(), tanh


SET_INSIDE = [
    leaf_hook_that_stays, leaf_hook_of_a_partial_function, leaf_hook_removed_before_backward,
    hooks_behind_accumulation, hooks_around_backward, forward_hook_that_stays,
    forward_hooks_removed, forward_hooks_with_arguments, hook_of_a_new_module,
]  # fmt: skip


def steps(function: Callable[..., Any]) -> Any:
    """What three steps leave: hooks that stay are removed between them, in front of a last call."""
    net, seen, found = model(), [], []
    for size in (5, 5, 6):
        x = torch.linspace(-1, 1, size * 4).view(size, 4)
        loss, kept = function(net, seen, x)
        loss.backward()
        found += [loss, kept(x) if isinstance(kept, nn.Module) else None]
        for handle in kept if isinstance(kept, list) else [kept]:
            if isinstance(handle, torch.utils.hooks.RemovableHandle):
                handle.remove()
        found += [net(x), [p.grad.clone() for p in net.parameters()]]
    return found, seen


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", SET_INSIDE)
def test_hooks_that_the_program_sets_are_part_of_one_graph(function, backend) -> None:
    compiled = minitorch2.compile(function, backend=backend, dynamic=True, fullgraph=True)
    expected = steps(function)
    with stages.collect() as log:
        assert_close(steps(compiled), expected)
    assert log.counts["graphs"] <= 2, "the number of a hook is no reason to compile again"


def test_what_cannot_have_a_hook_is_eagers_error() -> None:
    for function in (
        lambda x: x.detach().register_hook(torch.sin),
        lambda x: x.detach().register_post_accumulate_grad_hook(torch.sin),
        lambda x: (x * 2).register_post_accumulate_grad_hook(torch.sin),
    ):
        for each in (function, minitorch2.compile(function, backend="eager")):
            with pytest.raises(RuntimeError, match="hook"):
                each(torch.ones(2, requires_grad=True))
