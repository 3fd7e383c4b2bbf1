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
from torch.autograd import forward_ad

from minitorch2.bytecode.guards.overrides import hiding_overrides
from minitorch2.bytecode.guards.settings import READERS, Place, restore
from minitorch2.native.torch_internals import gradients, modes

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
    overrides: tuple[bool, bool]
    autocasts: tuple[tuple[bool, torch.dtype], ...]
    autocast_cache: tuple[bool, int]
    forward_level: int
    settings: tuple[tuple[Place, object], ...]

    @staticmethod
    def now() -> ThreadState:
        """Return the present state."""
        return ThreadState(
            torch.is_grad_enabled(),
            modes.count_dispatch_modes(),
            modes.count_function_modes(),
            (modes.are_overrides_enabled(), not modes.are_function_modes_disabled()),
            tuple((torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in _DEVICES),
            (torch.is_autocast_cache_enabled(), _autocast_depth()),
            gradients.forward_level(),
            tuple(((write, ()), read()) for write, read in _WITHOUT_PLACE.items()),
        )

    def restore(self) -> None:
        """Put PyTorch back into this state."""
        while modes.count_dispatch_modes() > self.dispatch_modes:
            modes.pop_dispatch_mode(None)
        while modes.count_function_modes() > self.function_modes:
            modes.pop_function_mode()
        modes.set_state(*self.overrides)
        while gradients.forward_level() > self.forward_level:
            forward_ad.exit_dual_level()  # type: ignore[no-untyped-call]
        gradients.write_grad_mode(self.grad_enabled)
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
        with _without_saved_tensors_hooks():
            return copy_context().run(hiding_overrides, work)
    except BaseException:
        before.restore()
        raise


@contextmanager
def _without_saved_tensors_hooks() -> Iterator[None]:
    hooks = []
    while (innermost := gradients.innermost_saved_tensor_hooks(True)) is not None:
        hooks.append(innermost)
        gradients.pop_saved_tensor_hooks()
    try:
        yield
    finally:
        for pack, unpack in reversed(hooks):
            gradients.push_saved_tensor_hooks(pack, unpack)
