"""Results whose history the program itself has used up.

    loss.backward()          # inside the program: frees what the derivatives would read
    return loss              # requires grad, but a second backward is an error

PyTorch's own autograd decides. While a program is traced, fake tensors have a history like any
others, so computing the gradients of such a result fails there as in eager PyTorch. The compiled
result requires grad, too, and its backward raises that error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from minitorch2.native.torch_internals.gradients import call_in_grad_mode


class _Spent(torch.autograd.Function):
    """The identity; its derivative is an error, or zero."""

    @staticmethod
    def forward(ctx: Any, message: str, tensor: torch.Tensor, leaf: torch.Tensor) -> torch.Tensor:
        ctx.message = message
        ctx.mark_dirty(tensor)
        return tensor

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        if ctx.message:
            raise RuntimeError(ctx.message)
        return None, None, None


def spend(run: Callable[..., Any], spent: Sequence[tuple[int, str]]) -> Callable[..., Any]:
    """Give some of a function's results a history that is used up.

    Args:
        spent: the position of each such result, and its error; empty if a backward does nothing.
    """
    if not spent:
        return run
    leaf = torch.empty(0, requires_grad=True)

    def spending(*arguments: Any) -> Sequence[Any]:
        results = list(run(*arguments))
        for index, message in spent:
            results[index] = call_in_grad_mode(True, _Spent.apply, message, results[index], leaf)
        return results

    return spending
