"""Optimizers of `torch.optim` take lists of tensors in a region, where the program leaves it open.

    foreach=None --> foreach=True        while `step` runs in a region

PyTorch chooses so itself for parameters on a GPU: an operator on lists is one call for all
parameters. Both ways compute the same numbers, and here a call is what a parameter costs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from minitorch2.graph.fake_tensor import flat
from minitorch2.native.torch_internals.modes import DisableTorchFunction


@contextmanager
def lists_of_parameters() -> Iterator[None]:
    """Let optimizers of this thread take lists; their settings are as before behind each step."""
    changed: list[dict[str, Any]] = []
    thread = threading.get_ident()

    def take_lists(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        # A closure, which the step would call, may look at the settings.
        if thread == threading.get_ident() and len(args) == 1 and not kwargs:
            changed.extend(group for group in optimizer.param_groups if _is_open(optimizer, group))
            for group in changed:
                group["foreach"] = True

    def restore(*_: Any) -> None:
        if thread == threading.get_ident():
            while changed:
                changed.pop()["foreach"] = None

    handles = (
        register_optimizer_step_pre_hook(take_lists),
        register_optimizer_step_post_hook(restore),
    )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        restore()


def _is_open(optimizer: Optimizer, group: dict[str, Any]) -> bool:
    """Return whether an optimizer of PyTorch may take lists, and nobody has chosen."""
    if not type(optimizer).__module__.startswith("torch.optim.") or "foreach" not in group:
        return False
    settings = {name: value for name, value in group.items() if name != "params"}
    has_tensors = any(isinstance(value, torch.Tensor) for value in flat(settings.values()))
    is_chosen = any(settings.get(name) is not None for name in ("foreach", "fused"))
    if has_tensors or is_chosen or settings.get("differentiable") or settings.get("capturable"):
        return False
    with DisableTorchFunction():
        gradients = [parameter.grad for parameter in group["params"]]
    return not any(g is not None and g.layout is not torch.strided for g in gradients)
