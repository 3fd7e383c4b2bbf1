"""``options={"freezing": True}``: constants for these parameters, and for no others."""

import gc
import re
import weakref

import pytest
import torch
from torch import nn

import minitorch2
from minitorch2 import stages

FROZEN = {"freezing": True}


class Block(nn.Module):
    """Convolution, normalization, and a layer whose weight is computed of parameters."""

    def __init__(self, bias: bool = True):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, bias=bias)
        self.normalization = nn.BatchNorm2d(4)
        self.scale = nn.Parameter(torch.rand(4))
        with torch.no_grad():
            for value in (*self.normalization.parameters(), self.normalization.running_mean):
                value.uniform_(-1, 1)
            self.normalization.running_var.uniform_(0.5, 2)

    def forward(self, x):
        normal = self.normalization(self.convolution(x)).relu()
        return normal * torch.softmax(self.scale, 0)[:, None, None]


@pytest.fixture
def x():
    return torch.randn(2, 3, 8, 8)


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_convolution_and_normalization_are_one_convolution(x, bias):
    model = Block(bias).eval()
    with torch.no_grad(), stages.collect() as log:
        close(minitorch2.compile(model, options=FROZEN)(x), model(x))
    (text,) = log.texts("aten graph.py")
    operators = re.findall(r"torch\.ops\.aten\.(\w+)", text)
    computing = [name for name in operators if name not in ("view", "unsqueeze", "clone")]
    assert computing == ["convolution", "relu", "mul"]


def test_weights_that_change_afterwards_have_no_effect(x):
    model = Block().eval()
    compiled = minitorch2.compile(model, options=FROZEN)
    with torch.no_grad():
        expected = compiled(x)
        for parameter in model.parameters():
            parameter.add_(1.0)
        model.normalization.running_mean.add_(1.0)
        torch.testing.assert_close(compiled(x), expected, rtol=0, atol=0)


def test_another_parameter_is_another_program(x):
    model = Block().eval()
    compiled = minitorch2.compile(model, options=FROZEN)
    with torch.no_grad():
        compiled(x)
        model.scale = nn.Parameter(torch.rand(4))
        close(compiled(x), model(x))


def test_equal_layers_keep_their_own_weights(x):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
                print(end="")
            return x

    model = Twice().eval()
    compiled = minitorch2.compile(model, options=FROZEN)
    with torch.no_grad():
        for _ in range(2):
            close(compiled(x), model(x))


def test_statistics_that_are_written_are_no_constants(x):
    """In training mode a normalization updates its buffers, with or without gradients."""
    model, twin = Block(), Block()
    twin.load_state_dict(model.state_dict())
    compiled = minitorch2.compile(model, options=FROZEN)
    with torch.no_grad():
        for _ in range(3):
            close(compiled(x), twin(x))
    close(model.normalization.running_mean, twin.normalization.running_mean)


def test_nothing_is_frozen_where_gradients_are_computed(x):
    model = Block().eval()
    compiled = minitorch2.compile(model, options=FROZEN)
    compiled(x).sum().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5)
    close(compiled(x), model(x))


def test_frozen_programs_go_with_their_parameters(x):
    model = Block().eval()
    compiled = minitorch2.compile(model, options=FROZEN)
    with torch.no_grad():
        compiled(x)
    weight = weakref.ref(model.scale)
    del model, compiled
    gc.collect()
    assert weight() is None
