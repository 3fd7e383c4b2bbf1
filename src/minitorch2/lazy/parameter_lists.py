"""Optimizers of `torch.optim` take lists of tensors in a region, where the program leaves it open.

    foreach=None --> foreach=True        while `step` runs in a region

PyTorch chooses so itself for parameters on a GPU: an operator on lists is one call for all
parameters. Both ways compute the same numbers, and here a call is what a parameter costs.

An optimizer of PyTorch reads no memory behind the dispatcher's back. So the function mode of the
region, which would see ten calls for each parameter, is away while such an optimizer steps, and
while it forgets gradients.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.overrides import TorchFunctionMode

from minitorch2.graph.fake_tensor import flat
from minitorch2.lazy.step import owns_memory, trust
from minitorch2.lazy.value import LazyTensor
from minitorch2.native.torch_internals.modes import (
    DisableTorchFunction,
    count_function_modes,
    function_mode_at,
    pop_function_mode,
    push_function_mode,
)


class Away:
    """A function mode that may be away: it is the innermost one of its thread otherwise."""

    def __init__(self, mode: TorchFunctionMode | None) -> None:
        self.is_away = False
        self._mode = mode

    def leave(self) -> None:
        """Remove the mode if it is the innermost one."""
        if self._mode is None or self.is_away:
            return
        count = count_function_modes()
        self.is_away = bool(count) and function_mode_at(count - 1) is self._mode
        if self.is_away:
            pop_function_mode()

    def come_back(self) -> None:
        """Put the mode back if it is away."""
        if self.is_away:
            push_function_mode(self._mode)
            self.is_away = False


@contextmanager
def lists_of_parameters(guard: Away) -> Iterator[None]:
    """Let optimizers of this thread take lists; their settings are as before behind each step.

    Args:
        guard: leaves while an optimizer of PyTorch steps. Behind a step that fails, whoever sees
            the end of its profile lets it come back.
    """
    changed: list[dict[str, Any]] = []
    thread = threading.get_ident()

    def take_lists(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        # A closure, which the step would call, may look at the settings.
        if thread == threading.get_ident() and len(args) == 1 and not kwargs:
            changed.extend(group for group in optimizer.param_groups if _is_open(optimizer, group))
            for group in changed:
                group["foreach"] = True
            if _is_alone(optimizer):
                _trust_state(optimizer)
                guard.leave()

    def restore(*_: Any) -> None:
        if thread == threading.get_ident():
            guard.come_back()
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


def _is_alone(optimizer: Optimizer) -> bool:
    """Return whether a step runs no code but PyTorch's, on tensors of no other class."""
    if not type(optimizer).__module__.startswith("torch.optim."):
        return False
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        return False
    kinds = {type(p) for group in optimizer.param_groups for p in group["params"]}
    return kinds <= _KINDS


def _trust_state(optimizer: Optimizer) -> None:
    """Let the step hold the state of an optimizer that was loaded from a file.

    PyTorch marks the memory of such tensors as it marks that of NumPy's arrays. No array shows it.
    """
    with DisableTorchFunction():
        for state in optimizer.state.values():
            for tensor in state.values():
                if type(tensor) is torch.Tensor and not owns_memory(tensor):
                    trust(tensor)


_KINDS: Final = {torch.Tensor, torch.nn.Parameter, LazyTensor}


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
