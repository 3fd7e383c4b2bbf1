"""A compilation that is cut off leaves no trace in its thread.

Ctrl-C may arrive at any instruction, also where a context manager is being entered or left. So the
caller of a compilation puts back all that it changes for its thread. The state of PyTorch is
compared with the state before, and context variables (options, logs) are changed in a copy.

The user's state does not reach into a compilation, either. Hooks on saved tensors
(``torch.utils.checkpoint`` counts with them) are for the tensors of a run, not for the fake ones of
a compilation. Overrides of PyTorch's functions are not for the calls that a compilation makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch._C import _autograd
from torch.autograd import forward_ad

from minitorch2.bytecode.guards.overrides import hidden
from minitorch2.bytecode.guards.settings import READERS, Place, restore

R = TypeVar("R")

_DEVICES = ("cpu", "cuda")
_WITHOUT_PLACE = {
    write: read
    for write, read in READERS.items()
    if not any(word in read.__name__ for word in ("fp32_precision", "autocast"))
}


def _autocast_depth() -> int:
    """Return the number of regions of autocast; the cache of casts lives as long as the last."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


@dataclass(frozen=True, slots=True)
class ThreadState:
    """The parts of PyTorch's state of this thread that a compilation changes while it works."""

    grad_enabled: bool
    dispatch_modes: int
    function_modes: int
    autocasts: tuple[tuple[bool, torch.dtype], ...]
    autocast_cache: tuple[bool, int]
    forward_level: int
    settings: tuple[tuple[Place, object], ...]

    @staticmethod
    def now() -> ThreadState:
        """Return the present state."""
        return ThreadState(
            torch.is_grad_enabled(),
            torch._C._len_torch_dispatch_stack(),
            torch._C._len_torch_function_stack(),
            tuple((torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in _DEVICES),
            (torch.is_autocast_cache_enabled(), _autocast_depth()),
            forward_ad._current_level,
            tuple(((write, ()), read()) for write, read in _WITHOUT_PLACE.items()),
        )

    def restore(self) -> None:
        """Put PyTorch back into this state."""
        while torch._C._len_torch_dispatch_stack() > self.dispatch_modes:
            torch._C._pop_torch_dispatch_stack(None)
        while torch._C._len_torch_function_stack() > self.function_modes:
            torch._C._pop_torch_function_stack()
        while forward_ad._current_level > self.forward_level:
            forward_ad.exit_dual_level()  # type: ignore[no-untyped-call]
        torch._C._set_grad_enabled(self.grad_enabled)
        for device, (enabled, dtype) in zip(_DEVICES, self.autocasts, strict=True):
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        cached, depth = self.autocast_cache
        torch.set_autocast_cache_enabled(cached)
        while _autocast_depth() > depth:
            if torch.autocast_decrement_nesting() == 0:
                torch.clear_autocast_cache()
        restore(self.settings)


def isolated(work: Callable[[], R]) -> R:
    """Return the result of `work`; if it raises, put the thread's state back as it was."""
    before = ThreadState.now()
    try:
        with _without_saved_tensors_hooks(), hidden():
            return copy_context().run(work)
    except BaseException:
        before.restore()
        raise


@contextmanager
def _without_saved_tensors_hooks() -> Iterator[None]:
    hooks = []
    while (innermost := _autograd._top_saved_tensors_default_hooks(True)) is not None:
        hooks.append(innermost)
        _autograd._pop_saved_tensors_default_hooks()
    try:
        yield
    finally:
        for pack, unpack in reversed(hooks):
            _autograd._push_saved_tensors_default_hooks(pack, unpack)
