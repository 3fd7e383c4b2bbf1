"""PyTorch's state while a program or its gradients are traced."""

from __future__ import annotations

from contextlib import ExitStack

import torch

from minitorch2.native.torch_internals.dispatch import enable_python_dispatcher


def tracing_state(autocast: bool, symbolic: bool) -> ExitStack:
    """Keep the caller's grad mode and autocast cache, whatever the program sets, until the exit.

    The cache holds the first cast of a leaf, also for a region of another dtype inside.
    With ``symbolic`` sizes, composite operators run in their Python form: the C++ form of some
    (``matmul`` before torch 2.13) asks for sizes that are plain integers.

    This is not a generator: an interrupted generator would restore the state when it is collected.
    """
    stack = ExitStack()
    stack.callback(torch.set_grad_enabled, torch.is_grad_enabled())
    stack.callback(torch.set_autocast_cache_enabled, torch.is_autocast_cache_enabled())
    for device in ("cpu", "cuda"):
        if not autocast and torch.is_autocast_enabled(device):
            stack.enter_context(torch.autocast(device, enabled=False))
    if symbolic:
        stack.enter_context(enable_python_dispatcher())
    return stack
