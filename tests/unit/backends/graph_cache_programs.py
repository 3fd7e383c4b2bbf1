"""Programs of every kind, whose graphs are cached; also a script that runs them in its process.

``python -m tests.unit.backends.graph_cache_programs RESULTS [reversed]`` runs all of them, saves
what they gave (values, gradients and what was written) and prints what was counted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import minitorch2
from minitorch2 import config, stages
from minitorch2.backends.graph_cache import REASONS

Program = Callable[[], list[Any]]
PROGRAMS: dict[str, Program] = {}


def program(run: Program) -> Program:
    PROGRAMS[run.__name__] = run
    return run


def numbers(*size: int, grad: bool = False) -> torch.Tensor:
    count = torch.Size(size).numel()
    values = torch.linspace(-2, 2, count, dtype=torch.float64).view(size).float()
    return values.requires_grad_(grad)


@program
def inference() -> list[Any]:
    model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)).eval()
    with torch.no_grad():
        return [minitorch2.compile(model)(numbers(4, 6))]


@program
def training() -> list[Any]:
    model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 3))
    x = numbers(4, 6, grad=True)
    result = minitorch2.compile(model)(x)
    result.square().sum().backward()
    return [result, x.grad, *(p.grad for p in model.parameters())]


@program
def writes_views_and_aliases() -> list[Any]:
    @minitorch2.compile
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        x[1:].mul_(2)
        y.add_(x.sum())
        part = y[:2]
        return x, part, part.t(), y * 2, 5, None

    x, y = numbers(4, 3), numbers(3, 3)
    result = function(x, y)
    assert result[0] is x and result[1]._base is y
    return [x, y, *result[:4]]


@program
def written_buffers_in_training() -> list[Any]:
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU())
    x = numbers(2, 2, 5, 5, grad=True)
    result = minitorch2.compile(model)(x)
    result.sum().backward()
    return [result, x.grad, *model.buffers(), *(p.grad for p in model.parameters())]


@program
def sizes_that_vary() -> list[Any]:
    @minitorch2.compile(dynamic=True)
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = F.softmax(x @ w, -1)
        return y[: x.shape[0] // 2].sum(0) if x.shape[0] > 4 else y.var(0)

    found = []
    for rows in (6, 10, 3):
        x, w = numbers(rows, 5, grad=True), numbers(5, 7, grad=True)
        result = function(x, w)
        result.square().sum().backward()
        found += [result, x.grad, w.grad]
    return found


@program
def sizes_of_data() -> list[Any]:
    @minitorch2.compile
    def function(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0].exp().sum(0, keepdim=True)

    return [function(numbers(9)), function(numbers(4))]


@program
def random_numbers() -> list[Any]:
    @minitorch2.compile
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.5) * torch.rand(4) + torch.randn_like(x)

    x = numbers(4, 4, grad=True)
    result = function(x)
    result.sum().backward()
    return [result, x.grad]


@program
def own_random_numbers() -> list[Any]:
    with config.patch(fallback_random=False):
        function = minitorch2.compile(lambda x: F.dropout(x, 0.5) + 1)
        x = numbers(8, 4, grad=True)
        result = function(x)
        result.sum().backward()
    return [result, x.grad]


@program
def autocast() -> list[Any]:
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    x = numbers(4, 6, grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        result = minitorch2.compile(model)(x)
    result.float().sum().backward()
    return [result, x.grad]


@program
def branches_and_loops() -> list[Any]:
    @minitorch2.compile
    def function(x: torch.Tensor) -> Any:
        y = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() + 1, (x,))

        def step(i: torch.Tensor, y: torch.Tensor) -> Any:
            return i + 1, y * 1.5

        return torch._higher_order_ops.while_loop(lambda i, y: i < 3, step, (torch.tensor(0), y))[1]

    with torch.no_grad():
        return [function(numbers(5) + 1), function(numbers(5) - 1)]


@program
def gradients_of_branches() -> list[Any]:
    @minitorch2.compile
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() * x, (x,))

    found = []
    for shift in (1, -1):
        x = (numbers(5) + shift).requires_grad_()
        result = function(x)
        result.sum().backward()
        found += [result, x.grad]
    return found


@program
def constants() -> list[Any]:
    table = minitorch2.compile(lambda x: x + torch.tensor([1.5, -2.0, float("inf")]))
    with torch.no_grad():
        return [table(numbers(2, 3))]


@program
def gradients_of_gradients() -> list[Any]:
    x = numbers(4, grad=True)
    y = minitorch2.compile(lambda x: (x.sin() * x).sum())(x)
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    return [first, *torch.autograd.grad(first.sum(), x), *torch.autograd.grad(y, x)]


@program
def checkpoints() -> list[Any]:
    from torch.utils.checkpoint import checkpoint

    linear = nn.Linear(5, 5)
    function = minitorch2.compile(
        lambda x: checkpoint(lambda x: torch.sigmoid(linear(x)).sin(), x, use_reentrant=False)
    )
    x = numbers(3, 5, grad=True)
    function(x).sum().backward()
    return [x.grad, linear.weight.grad]


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return gradient * 3 * x * x


@program
def own_gradients() -> list[Any]:
    x = numbers(6, grad=True)
    minitorch2.compile(lambda x: Cube.apply(x).sum())(x).backward()
    return [x.grad]


@program
def images_channels_last() -> list[Any]:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)).eval()
    with torch.no_grad():
        return [minitorch2.compile(model)(numbers(1, 3, 9, 9))]


@program
def integers_and_types() -> list[Any]:
    @minitorch2.compile
    def function(x: torch.Tensor, i: torch.Tensor) -> Any:
        return x[i].argmax(1), (x > 0).sum(), x.to(torch.float16), i.bitwise_and(3), x.max(1)

    *first, (values, places) = function(numbers(5, 4), torch.tensor([0, 3, 4]))
    return [*first, values, places]


def run_all(names: list[str]) -> dict[str, list[Any]]:
    found = {}
    for name in names:
        torch.manual_seed(7)
        with config.patch(verify=False, suppress_errors=False):
            results = PROGRAMS[name]()
        found[name] = [value.detach() for value in results]
        minitorch2.reset()
    return found


if __name__ == "__main__":
    order = [*PROGRAMS]
    torch.save(run_all(order[::-1] if "reversed" in sys.argv else order), sys.argv[1])
    print(json.dumps([stages.counters(), REASONS]))
