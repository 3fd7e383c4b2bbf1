"""Models and programs with control flow, for `benchmarks.captures`: each is called several times.

The first arguments are the example that a trace is recorded for. Later ones have other sizes, other
data, another mode. All parameters that are no tensors are annotated, so that scripts can read them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.script import cell

STEPS = 20
WEIGHT = torch.full((4,), 2.0, requires_grad=True)
CALLS: list[int] = []


@dataclass(frozen=True)
class Program:
    """A function or module, and the arguments of its calls.

    Attributes:
        make: gives the function, or a module with weights from a fixed seed.
        calls: gives fresh arguments of each call.
        before: is called with what is about to be called, and the number of the call.
        is_model: whether it has no control flow that depends on data; its calls are timed.
    """

    name: str
    make: Callable[[], Callable[..., Any]]
    calls: Callable[[], list[tuple[Any, ...]]]
    before: Callable[[Any, int], None] = lambda function, number: None
    is_model: bool = False


# Models -------------------------------------------------------------------------------------------


def perceptron() -> nn.Module:
    layers = nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 32), nn.ReLU()
    return nn.Sequential(*layers, nn.Linear(32, 4))


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip


class Attention(nn.Module):
    """Two heads; the sizes of the input are read."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            self.inner(x).view(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4).unbind()
        )
        scores = torch.softmax(q @ k.transpose(-2, -1) * 0.35, -1)
        return x + self.outer((scores @ v).transpose(1, 2).reshape(batch, length, width))


class Recurrent(nn.Module):
    """An LSTM as a loop over the steps of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.w_x, self.w_h = (nn.Parameter(torch.randn(64, n) * 0.2) for n in (8, 16))
        self.b_x, self.b_h = (nn.Parameter(torch.zeros(64)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        h = c = torch.zeros(x.size(1), 16)
        outputs = []
        for step in range(x.size(0)):
            h, c = cell(x[step], h, c, self.w_x, self.w_h, self.b_x, self.b_h)
            outputs.append(h)
        return torch.stack(outputs)


class Classifier(nn.Module):
    """Words, a mean, and a loss if there are labels; the answer is a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(50, 16), nn.Linear(16, 3)

    def forward(self, words: Tensor, labels: Optional[Tensor] = None) -> dict[str, Tensor]:  # noqa: UP045
        logits = self.head(self.words(words).mean(1))
        found = {"logits": logits}
        if labels is not None:
            found["loss"] = F.cross_entropy(logits, labels)
        return found


def normal(*shapes: tuple[int, ...]) -> list[tuple[Tensor, ...]]:
    """One call with a random tensor for each shape."""
    return [(torch.randn(shape),) for shape in shapes]


def sentences() -> list[tuple[Tensor, ...]]:
    return [(torch.randint(50, (n, 7)), torch.randint(3, (n,))) for n in (4, 2, 9, 5)]


IMAGES = (4, 3, 8, 8), (2, 3, 8, 8), (5, 3, 6, 10), (3, 3, 8, 8)
WORDS = (2, 5, 16), (3, 7, 16), (1, 4, 16), (4, 6, 16)

MODELS = [
    Program("perceptron", perceptron, lambda: normal((8, 16), (3, 16), (12, 16), (1, 16))),
    Program("convolutions, training", convolutions, lambda: normal(*IMAGES)),
    Program("convolutions", lambda: convolutions().eval(), lambda: normal(*IMAGES)),
    Program("attention", Attention, lambda: normal(*WORDS)),
    Program(
        "transformer layer",
        lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0),
        lambda: normal(*WORDS),
    ),
    Program(
        f"LSTM cell, {STEPS} steps",
        Recurrent,
        lambda: normal((STEPS, 4, 8), (STEPS, 2, 8), (STEPS, 7, 8), (STEPS, 5, 8)),
    ),
    Program(
        "nn.LSTM",
        lambda: nn.LSTM(8, 16),
        lambda: normal((6, 4, 8), (6, 2, 8), (9, 4, 8), (3, 5, 8)),
    ),
    Program("classifier with a loss", Classifier, sentences),
]


# Control flow -------------------------------------------------------------------------------------


def branch_on_data(x):
    if x.sum() > 0:
        return x.relu()
    return x.sigmoid()


def while_on_data(x):
    while bool(x.abs().sum() < 100):
        x = x * 2
    return x


def branch_on_size(x):
    if x.shape[0] > 3:
        return x * 2
    return x


def loop_over_rows(x):
    total = x[0]
    for i in range(x.shape[0]):
        total = total + i * x[i]
    return total


def list_that_grows(x):
    parts = [x]
    for _i in range(x.size(0)):
        if bool(parts[-1].sum() < 50):
            parts.append(parts[-1] + 1)
    return torch.stack(parts)


def selection(x):
    return x[x > 0].mean() + torch.nonzero(x > 0).shape[0]


def number_of_data(x):
    return x + float(x.max().item())


def dict_argument(x: dict[str, Tensor]):
    total = torch.zeros(())
    for value in x.values():
        total = total * 2 + value.sum()
    return total


def changed_argument(x):
    x.mul_(2)
    return x + 1


def no_gradient_inside(x):
    with torch.no_grad():
        y = x * WEIGHT
    return (y * WEIGHT).sum()


def optional_argument(x: Tensor, y: Optional[Tensor] = None):  # noqa: UP045
    if y is None:
        return x * 3
    return x + y


def number_argument(x: Tensor, n: int):
    return x * n if n > 2 else x - n


def text_argument(x: Tensor, mode: str):
    if mode == "mean":
        return x.mean()
    return x.sum()


def dtype_switch(x):
    if x.dtype == torch.float64:
        return x.float() + 1
    return x.double() - 1


class Flag(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            return x * 2
        return x


class Counter(nn.Module):
    """A module that counts its calls in an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


def global_list(x):
    CALLS.append(1)
    return x * len(CALLS)


def random_of_python(x):
    return x * random.random()


def numpy_inside(x):
    return x + torch.from_numpy(np.sin(x.detach().numpy()))


def caught_error(x):
    try:
        return x.view(-1, 2)
    except RuntimeError:
        return x


def generated(x):
    return sum(row * i for i, row in enumerate(x))


class Doubled(torch.autograd.Function):
    """Twice the input, and three times the gradient."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3


def own_gradient(x):
    return Doubled.apply(x * WEIGHT).sum()


class Scale:
    """An object that is no module."""

    def __init__(self, factor: float) -> None:
        self.factor = factor


SCALE = Scale(2.0)


def object_of_python(x):
    return x * SCALE.factor


def rescale(function: Any, number: int) -> None:
    SCALE.factor = 2.0 + number


def evaluate(function: Any, number: int) -> None:
    """Leave training mode after the first call."""
    if number:
        function.eval()


def signed() -> list[tuple[Tensor]]:
    """Rows of four numbers: other data, then other sizes."""
    calls = ((5, 1), (5, -1), (2, 1), (1, -1), (7, 1), (6, -1))
    return [(sign * (torch.arange(rows * 4.0).view(rows, 4) + 1),) for rows, sign in calls]


def in_dicts() -> list[tuple[dict[str, Tensor]]]:
    return [
        ({"a": x, "b": x * 3} if x.sum() > 0 else {"b": x * 3, "a": x},) for (x,) in signed()
    ]  # fmt: skip


def with_numbers(*numbers: Any) -> list[tuple[Any, ...]]:
    return [(x, number) for (x,), number in zip(signed(), numbers, strict=False)]


CONTROL = [
    *(
        Program(function.__name__.replace("_", " "), lambda function=function: function, signed)
        for function in (
            branch_on_data, while_on_data, branch_on_size, loop_over_rows, list_that_grows,
            selection, number_of_data, changed_argument, no_gradient_inside, global_list,
            random_of_python, numpy_inside, caught_error, generated, own_gradient,
        )
    ),
    Program("object of Python", lambda: object_of_python, signed, rescale),
    Program("dict argument", lambda: dict_argument, in_dicts),
    Program("training flag", Flag, signed, evaluate),
    Program("counting module", Counter, signed),
    Program("number argument", lambda: number_argument, lambda: with_numbers(1, 5, 1, 4)),
    Program("text argument", lambda: text_argument, lambda: with_numbers("sum", "mean", "sum")),
    Program(
        "optional argument",
        lambda: optional_argument,
        lambda: [(torch.ones(3), torch.ones(3)), (torch.ones(3),), (torch.ones(2), torch.ones(2))],
    ),
    Program(
        "dtype switch",
        lambda: dtype_switch,
        lambda: [(torch.ones(3, dtype=kind),) for kind in (torch.float32, torch.float64)],
    ),
]  # fmt: skip
