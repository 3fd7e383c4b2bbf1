"""Recurrent layers in training are part of the graph, their workspace included."""

import importlib
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import minitorch2
from minitorch2 import config

LAYERS: dict[str, Any] = {
    "lstm": lambda: nn.LSTM(8, 16, batch_first=True),
    "two layers": lambda: nn.LSTM(8, 16, num_layers=2, batch_first=True),
    "both directions": lambda: nn.LSTM(8, 16, bidirectional=True),
    "without biases": lambda: nn.LSTM(8, 16, bias=False),
    "gru": lambda: nn.GRU(8, 16, num_layers=2),
    "plain": lambda: nn.RNN(8, 16),
}


@pytest.mark.parametrize("backend", ["numba", "aot_eager"])
@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_eagers(name: str, backend: str) -> None:
    layer = LAYERS[name]()

    def program(x: Tensor) -> Tensor:
        outputs, _ = layer(x)
        return outputs[:, -1].sin()

    results = []
    compiled = minitorch2.compile(program, backend=backend, fullgraph=True)
    with config.patch(suppress_errors=False):
        for function in (program, compiled):
            torch.manual_seed(2)
            x = torch.randn(3, 5, 8, requires_grad=True)
            y = function(x)
            results.append((y, *torch.autograd.grad(y.sum(), [x, *layer.parameters()])))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


def test_gradients_of_a_layer_that_pytorch_decomposes_are_eagers() -> None:
    """Regression: the decomposition says that no layer trains, and the backward pass crashed."""
    importlib.import_module("torch._decomp.decompositions")  # its rules hold from now on
    layer = nn.LSTM(8, 16)
    compiled = minitorch2.compile(layer)
    for batch in (4, 2):  # the second size makes it ask for the rules
        x = torch.randn(6, batch, 8)
        found, wanted = (
            torch.autograd.grad(function(x)[0].sum(), [*layer.parameters()])
            for function in (compiled, layer)
        )
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_inference_keeps_no_workspace() -> None:
    layer, x = nn.LSTM(8, 16), torch.randn(5, 2, 8)
    with torch.no_grad():
        torch.testing.assert_close(minitorch2.compile(layer, fullgraph=True)(x), layer(x))


@pytest.mark.parametrize("training", [False, True])
def test_lengths_that_vary(training: bool) -> None:
    layer = nn.LSTM(8, 16).requires_grad_(training)
    compiled = minitorch2.compile(layer)
    with config.patch(suppress_errors=False):
        for length in (5, 7, 9):
            x = torch.randn(length, 2, 8)
            torch.testing.assert_close(compiled(x)[0], layer(x)[0], rtol=1e-4, atol=1e-5)
