"""Traces hold for other sizes, with gradients: they equal eager mode, or refuse with a line."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from minitorch2.script.runtime.python_code import compile_graph
from minitorch2.script.tracing.assumptions import TraceDivergedError
from minitorch2.script.tracing.trace import trace

ROWS = (1, 2, 3, 4, 6, 7, 8, 9, 12, 0)


def halves(x):
    return x[: x.shape[0] // 2] * (1 / (x.shape[0] + 1)) + math.sqrt(x.shape[1])


def places(x):
    return torch.arange(x.shape[0]) + torch.zeros(x.size(0), dtype=torch.long)


def flat(x):
    return x.reshape(-1, x.shape[0] * 2)


def views_and_writes(x):
    y = x.clone()
    y[:, 1:] *= 2
    y.t_()
    y[0] = 1.0
    return y, y.shape[1]


def count_of_nonzero(x):
    return torch.nonzero(x > 0).shape[0] * x


def pairs(x):
    return x.view(-1, 2) if x.shape[0] % 2 == 0 else x


def squeezed(x):
    return x.sum(1, keepdim=True).squeeze() + 1


def containers(x):
    return {"rows": x, "means": (x.mean(1), [x, x + 1])}


def accumulated(x):
    total = torch.tensor(0.0)
    total += x.sum()
    return total


def drawn(x):
    return x + torch.rand_like(x)


FUNCTIONS = [halves, places, flat, views_and_writes, count_of_nonzero, pairs, squeezed]
FUNCTIONS += [containers, accumulated, drawn]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_trace_holds_for_ten_other_sizes_or_refuses_with_a_line(function):
    run = compile_graph(trace(function, torch.randn(5, 4)).graph)
    right = 0
    for rows in ROWS:
        x = torch.randn(rows, 4)
        torch.manual_seed(0)
        try:
            expected = function(x)
        except RuntimeError:
            continue
        torch.manual_seed(0)
        try:
            torch.testing.assert_close(run(x), expected)
        except TraceDivergedError as error:
            assert "test_tracing_sizes.py" in str(error)
        else:
            right += 1
    assert right >= 4


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.head = nn.Linear(3, 5)

    def forward(self, x):
        x = F.relu(x + self.norm(self.convolution(x)))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 24), nn.Linear(8, 8)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        batch, length, width = x.shape

        def heads(t):
            return t.view(batch, length, 2, width // 2).transpose(1, 2)

        q, k, v = map(heads, self.inner(x).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.drop(self.outer(y.transpose(1, 2).reshape(batch, length, width)))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.cell = nn.LSTM(8, 6, batch_first=True), nn.GRUCell(6, 6)

    def forward(self, x):
        y, (h, _) = self.lstm(x)
        return self.cell(y[:, -1], h[0])


def encoder():
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)


SENTENCES = [(2, 5, 8), (1, 3, 8), (4, 1, 8), (3, 7, 8)]
MODELS = [
    (Residual, [(2, 3, 8, 8), (4, 3, 6, 9), (3, 3, 5, 5)]),
    (Attention, SENTENCES),
    (Recurrent, SENTENCES),
    (encoder, SENTENCES),
]


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize(("make", "shapes"), MODELS, ids=lambda p: getattr(p, "__name__", ""))
def test_a_traced_model_equals_eager_mode_forward_and_backward(make, shapes, training):
    model = make().train(training)
    run, twin = compile_graph(trace(model, torch.randn(shapes[0])).graph), copy.deepcopy(model)
    for shape in shapes:
        x = torch.randn(shape)
        torch.manual_seed(0)
        expected = model(x)
        torch.manual_seed(0)
        found = run(twin, x)
        torch.testing.assert_close(found, expected)
        expected.square().sum().backward()
        found.square().sum().backward()
    for mine, theirs in zip(twin.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)
    for mine, theirs in zip(twin.buffers(), model.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs)
