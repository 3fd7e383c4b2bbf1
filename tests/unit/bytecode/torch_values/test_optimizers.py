"""Optimizers: a compiled step does what the step does, in one graph."""

import pytest
import torch
from torch import nn

import minitorch2
from minitorch2 import stages

OPTIMIZERS = [
    (torch.optim.SGD, {"lr": 0.1}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    (torch.optim.Adam, {"lr": 0.01}),
    (torch.optim.Adam, {"lr": 0.01, "foreach": True}),
    (torch.optim.AdamW, {"lr": 0.01}),
    (torch.optim.RMSprop, {"lr": 0.01}),
    (torch.optim.Adagrad, {"lr": 0.01}),
    (torch.optim.RAdam, {"lr": 0.01, "weight_decay": 0.1}),
    (torch.optim.RAdam, {"lr": 0.01, "foreach": True, "decoupled_weight_decay": True}),
    (torch.optim.ASGD, {"lr": 0.01, "t0": 2}),
    (torch.optim.ASGD, {"lr": 0.01, "t0": 2, "foreach": True}),
]
NAMES = [f"{cls.__name__}{list(options)[1:]}" for cls, options in OPTIMIZERS]


def trained(cls, options, compile_step, compile_train):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = cls(model.parameters(), **options)
    step = compile_step(optimizer.step)

    def train(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        step()
        return loss

    train = compile_train(train)
    losses = [train(torch.linspace(-1, 1, 20).reshape(5, 4)) for _ in range(8)]
    return [*losses, *model.parameters()]


def as_it_is(function):
    return function


def compiled(function):
    return minitorch2.compile(function, backend="eager")


@pytest.mark.parametrize(("cls", "options"), OPTIMIZERS, ids=NAMES)
def test_a_compiled_step_has_no_break(cls, options):
    expected = trained(cls, options, as_it_is, as_it_is)
    with stages.collect() as log:
        given = trained(cls, options, compiled, as_it_is)
    assert not log.counts["graph_breaks"], log.texts("graph_break")
    for left, right in zip(given, expected, strict=True):
        torch.testing.assert_close(left, right)


@pytest.mark.parametrize(("cls", "options"), OPTIMIZERS, ids=NAMES)
def test_a_training_step_is_one_graph(cls, options):
    expected = trained(cls, options, as_it_is, as_it_is)
    with stages.collect() as log:
        given = trained(cls, options, as_it_is, compiled)
    assert not log.counts["graph_breaks"], log.texts("graph_break")
    for left, right in zip(given, expected, strict=True):
        torch.testing.assert_close(left, right)


def test_gradients_are_clipped_in_the_graph():
    def clip(model):
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        nn.utils.clip_grad_value_(model.parameters(), 0.1)
        return norm

    def clipped(compile):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        model(torch.ones(3, 4)).sum().backward()
        return [compile(clip)(model), *(parameter.grad for parameter in model.parameters())]

    expected = clipped(as_it_is)
    with stages.collect() as log:
        given = clipped(compiled)
    assert not log.counts["graph_breaks"], log.texts("graph_break")
    for left, right in zip(given, expected, strict=True):
        torch.testing.assert_close(left, right)


def test_a_function_made_by_pybind_has_no_owner():
    """Its `__self__` is a record, of which it is no attribute: no error of the program's."""

    def program(x):
        try:
            name = torch._C._get_privateuse1_backend_name()
        except AttributeError:
            name = "wrong"
        return x + len(name), name

    assert compiled(program)(torch.ones(2))[1] == program(torch.ones(2))[1]


def test_a_function_that_only_steps_is_captured():
    """Regression: no tensor is in sight of it, and the optimizer's own frames are PyTorch's."""
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(4)).sum().backward()
    before = model.weight.detach().clone()
    with stages.collect() as log:
        minitorch2.compile(lambda: optimizer.step())()
    assert log.counts["graphs"] == 1 and log.counts["graph_breaks"] == 0
    torch.testing.assert_close(model.weight, before - 0.1 * model.weight.grad)
