"""What a call costs when there is next to nothing to compute."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from benchmarks.cases import Case, Function


def add_one(x: Tensor) -> Tensor:
    return x + 1


def many_inputs(*tensors: Tensor) -> Tensor:
    total = tensors[0]
    for tensor in tensors[1:]:
        total = total + tensor
    return total


def ten_linears() -> nn.Module:
    return nn.Sequential(*(nn.Linear(4, 4) for _ in range(10)))


class Shift(nn.Module):
    """A module of one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.by = nn.Parameter(torch.randn(8))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.by


def shifts(count: int) -> nn.Module:
    """So many parameters, each in a module of its own: what costs time is to look at them."""
    return nn.Sequential(*(Shift() for _ in range(count)))


class PassingMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Within(Case):
    """A case that is called inside of a context."""

    context: Callable[[], AbstractContextManager[Any]] = nullcontext

    def build(self, compiler: Callable[[Function], Function]) -> Function:
        compiled = super().build(compiler)

        def run(*inputs: Tensor) -> Any:
            with self.context():
                return compiled(*inputs)

        return run


def in_a_row(count: int) -> Callable[[Tensor], Tensor]:
    """A function of so many kernels: each sum is read by other rows than it is made of."""

    def run(x: Tensor) -> Tensor:
        for _ in range(count - 1):
            x = x.sum(1, keepdim=True).t() + x
        return x

    return run


def kernel_and_product(x: Tensor, weight: Tensor) -> Tensor:
    """Two pools of threads would get in each other's way here."""
    for _ in range(4):
        x = (x.sin() + x.cos()) @ weight
    return x


def with_a_break(x: Tensor) -> Tensor:
    y = x + 1
    return y * 2 if y.sum() > 0 else y - 2


def adam_step() -> Callable[[], Tensor | None]:
    """The step of an optimizer for 20 parameters, whose kernels share two launches. It returns a
    gradient: what the parameters are depends on how often it was called, so tests compare that.
    """
    model = nn.Sequential(*(nn.Linear(n, n + 8) for n in range(64, 144, 8)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)

    first = next(model.parameters())

    def step() -> Tensor | None:
        optimizer.step()
        return first.grad

    return step


def doubled(*tensors: Tensor) -> list[Tensor]:
    """As many small kernels as tensors, in one launch."""
    return torch._foreach_mul(tensors, 2.0)  # type: ignore[return-value]


def cases() -> list[Case]:
    """Tiny functions, so that time is guards, dispatch and launches."""
    return [
        Case("x + 1 of 8 numbers", lambda: add_one, lambda: (torch.randn(8),)),
        Case("x + 1, backward", lambda: add_one, lambda: (torch.randn(8),), backward=True),
        Case("20 inputs", lambda: many_inputs, lambda: tuple(torch.randn(8) for _ in range(20))),
        Case("10 linears of width 4", ten_linears, lambda: (torch.randn(1, 4),)),
        *(
            Case(f"{n} parameters in {n} modules", partial(shifts, n), lambda: (torch.randn(8),))
            for n in (10, 100, 250, 1000)
        ),
        Within("x + 1, function mode", lambda: add_one, lambda: (torch.randn(8),),
               context=PassingMode),
        Within("x + 1, device context", lambda: add_one, lambda: (torch.randn(8),),
               context=partial(torch.device, "cpu")),
        *(
            Case(f"{n} kernels in a row", partial(in_a_row, n), lambda: (torch.randn(8, 8),))
            for n in (2, 5, 10)
        ),
        Case(
            "kernels and products in turn",
            lambda: kernel_and_product,
            lambda: (torch.randn(512, 512), torch.randn(512, 512) / 32),
        ),
        Case("Adam, 20 parameters", adam_step, lambda: ()),
        Case("a list of 100", lambda: doubled, lambda: (*map(torch.randn, range(100, 800, 7)),)),
        Case("a graph break", lambda: with_a_break, lambda: (torch.randn(8),)),
    ]  # fmt: skip
