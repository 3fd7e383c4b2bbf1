"""Poolings as programs of slices, against the library; a GPU has no other kernels of them."""

import pytest
import torch
from torch import nn

import minitorch2
from minitorch2 import stages
from minitorch2.autograd.decompositions import pooling
from minitorch2.autograd.decompositions.pooling import at_maxima, maxima

aten = torch.ops.aten
INFINITE, NAN = float("-inf"), float("nan")
CASES = {
    "overlapping": ((2, 3, 9, 8), [3, 3], [2, 2], [1, 1], False),
    "side by side": ((2, 3, 8, 8), [2, 2], [2, 2], [0, 0], False),
    "with gaps": ((1, 2, 11, 10), [2, 1], [3, 4], [1, 0], False),
    "every place": ((1, 2, 7, 6), [3, 5], [1, 1], [1, 2], False),
    "a last one that reaches out": ((2, 3, 8, 10), [3, 2], [2, 4], [1, 0], True),
    "no batch": ((3, 9, 7), [4, 3], [2, 3], [2, 0], True),
    "a large window": ((1, 1, 20, 20), [18, 17], [1, 2], [0, 3], False),
}


@pytest.mark.parametrize("values", ["ties", "NaN", "nothing but -inf"])
@pytest.mark.parametrize("name", CASES)
def test_maxima_and_their_gradients(name, values):
    shape, window, step, padding, ceil = CASES[name]
    torch.manual_seed(0)
    x = torch.randn(shape).mul(2).round()
    if values != "ties":
        x[torch.rand(shape) < 0.3] = NAN if values == "NaN" else INFINITE
        x[..., :5, :5] = INFINITE
    value, index = aten.max_pool2d_with_indices(x, window, step, padding, [1, 1], ceil)
    windows = pooling._along_both(shape, window, step, padding)
    ours, places = maxima(x, windows, ceil)
    torch.testing.assert_close(ours, value, equal_nan=True)
    assert torch.equal(places, index)
    gradient = torch.randn(value.shape)
    expected = aten.max_pool2d_with_indices_backward(
        gradient, x, window, step, padding, [1, 1], ceil, index
    )
    torch.testing.assert_close(at_maxima(gradient, windows, index), expected)


def test_a_byte_is_saved_for_a_window(monkeypatch):
    monkeypatch.setattr(pooling, "_is_left_to_library", lambda *_: False)
    model, x = nn.Sequential(nn.ReLU(), nn.MaxPool2d(3, 2, 1)), torch.randn(2, 4, 12, 12)
    x.requires_grad_()
    expected = torch.autograd.grad(model(x).square().sum(), x)
    with stages.collect() as log:
        result = minitorch2.compile(model)(x)
        torch.testing.assert_close(torch.autograd.grad(result.square().sum(), x), expected)
    backward = log.texts("backward graph.py")[0]
    assert "i8[2, 4, 6, 6]" in backward
    assert "aten.gt" not in backward, "maxima are not found again"
    assert log.counts["fallbacks"] == 0


@pytest.mark.parametrize("backend", ["aot_eager", "numba"])
def test_unpooling_takes_the_last_of_several_elements_of_one_place(backend):
    """Each of them gets the gradient of the place, as in eager."""
    places = torch.tensor([[[[0, 0], [3, 3]]]])
    x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    unpool = lambda x: nn.functional.max_unpool2d(x, places, 2)  # noqa: E731
    for function in (unpool, minitorch2.compile(unpool, backend=backend, fullgraph=True)):
        leaf = x.clone().requires_grad_()
        result = function(leaf)
        result.backward(torch.arange(16.0).reshape(1, 1, 4, 4))
        assert result.flatten().tolist() == [2.0, 0.0, 0.0, 4.0, *[0.0] * 12]
        assert leaf.grad.flatten().tolist() == [0.0, 0.0, 3.0, 3.0]
