"""PyTorch's state while a program or its gradients are traced."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack

import torch

from minitorch2.native.torch_internals.dispatch import enable_python_dispatcher


class TracingState(AbstractContextManager[None]):
    """Keeps the caller's grad mode and autocast cache whatever the program sets.

    The cache holds the first cast of a leaf, also for a region of another dtype inside.
    With ``symbolic`` sizes, composite operators run in their Python form: the C++ form of some
    (``matmul`` before torch 2.13) asks for sizes that are plain integers.

    This is not a generator: an interrupted generator would restore the state when it is collected.
    """

    def __init__(self, autocast: bool, symbolic: bool) -> None:
        self.autocast = autocast
        self.symbolic = symbolic

    def __enter__(self) -> None:
        self._cached, self._enabled = torch.is_autocast_cache_enabled(), torch.is_grad_enabled()
        self._stack = ExitStack()
        for device in ("cpu", "cuda"):
            if not self.autocast and torch.is_autocast_enabled(device):
                self._stack.enter_context(torch.autocast(device, enabled=False))
        if self.symbolic:
            self._stack.enter_context(enable_python_dispatcher())

    def __exit__(self, *raised: object) -> None:
        torch.set_autocast_cache_enabled(self._cached)
        torch.set_grad_enabled(self._enabled)
        self._stack.close()
