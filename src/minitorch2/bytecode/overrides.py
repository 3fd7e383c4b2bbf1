"""Which overrides of PyTorch's functions are in force: classes with ``__torch_function__``, modes.

While a frame is captured nobody's override really runs: PyTorch's own dispatch is switched off, and
capture dispatches itself, on trackers (`trackers/torch_values/overriding.py`). This is the state
that it dispatches by, as PyTorch keeps it for each thread.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch.overrides import _enable_torch_function
from torch.utils._device import DeviceContext, _device_constructors

from minitorch2.module_names import is_in_package

if TYPE_CHECKING:
    from minitorch2.bytecode.trackers.base import VariableTracker


R = TypeVar("R")


def in_default_device(function: Callable[..., R], device: torch.device | None) -> Callable[..., R]:
    """A function that a graph calls as a whole, as it runs where a device is the default."""
    if device is None:
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> R:
        with _enable_torch_function(), device:
            return function(*args, **kwargs)

    return call


@dataclass(frozen=True)
class ActiveOverrides:
    """The state of a thread.

    Attributes:
        of_classes: whether overrides of classes act.
        of_modes: whether modes act.
        modes: each mode and its place on PyTorch's stack, innermost last.
    """

    of_classes: bool
    of_modes: bool
    modes: tuple[tuple[int, object], ...]

    @staticmethod
    def now() -> ActiveOverrides:
        """The present state; while it is hidden, the one that is."""
        known: ActiveOverrides | None = getattr(_HIDDEN, "state", None)
        if known is not None:
            return known
        return ActiveOverrides(
            torch._C._is_torch_function_enabled(),
            not torch._C._is_torch_function_all_disabled(),
            active_modes(),
        )


_HIDDEN = threading.local()
"""Attribute ``state``: what `hidden` hides in this thread."""


@contextmanager
def hidden() -> Iterator[None]:
    """Inside of the block no override acts."""
    before = getattr(_HIDDEN, "state", None)
    _HIDDEN.state = now = ActiveOverrides.now()
    none_act = torch._C.DisableTorchFunction if now.modes else torch._C.DisableTorchFunctionSubclass
    try:
        with none_act():
            yield
    finally:
        _HIDDEN.state = before


def classes_have_overrides() -> bool:
    """Whether overrides of classes act; guards ask."""
    return ActiveOverrides.now().of_classes


def active_modes() -> tuple[tuple[int, object], ...]:
    """The modes of this thread that are not this project's own, and where they are."""
    places = range(torch._C._len_torch_function_stack())
    stack = ((i, torch._C._get_function_stack_at(i)) for i in places)
    return tuple((i, mode) for i, mode in stack if not is_own(mode))


class OverridesRegion:
    """What is left of ``with torch._C.DisableTorchFunctionSubclass()`` where a graph breaks inside.

    Attributes:
        modes_too: whether modes are switched off, as `torch._C.DisableTorchFunction` does.
        before: whether classes and modes had a say before.
    """

    def __init__(self, modes_too: bool, before: tuple[bool, bool]) -> None:
        self.modes_too, self.before = modes_too, before

    def __enter__(self) -> None:
        """It has been entered."""

    def __exit__(self, *exception: object) -> None:
        set_state(*self.before)


def set_state(of_classes: bool, of_modes: bool) -> None:
    """Let classes, and modes, have a say in PyTorch's functions or not."""
    core: Any = torch._C
    states = core._TorchFunctionState
    disabled = states.SUBCLASSES_DISABLED if of_modes else states.ALL_DISABLED
    core._set_torch_function_state(states.ENABLED if of_classes else disabled)


def mode_at(place: int) -> object:
    """The mode at a place of PyTorch's stack; None if the stack ends before."""
    if place >= torch._C._len_torch_function_stack():
        return None
    return torch._C._get_function_stack_at(place)


def device_of_modes() -> torch.device | None:
    """The default device that a mode sets; guards ask, so no mode must notice."""
    devices = (mode.device for _, mode in active_modes() if isinstance(mode, DeviceContext))
    return next(devices, None)


def is_own(mode: object) -> bool:
    """Whether a mode belongs to this project: `explain` counts operators with one."""
    return is_in_package(type(mode).__module__, "minitorch2")


def without_overrides(call: Callable[..., R]) -> Callable[..., R]:
    """`call` with all overrides switched off: what they do is in its graph already."""

    def run(*args: Any) -> R:
        with torch._C.DisableTorchFunction():
            return call(*args)

    return run


@dataclass
class Overrides:
    """The state of a captured frame.

    Attributes:
        of_classes: whether overrides of classes act.
        of_modes: whether modes act.
        modes: the trackers of the modes, innermost last.
        before: those that were active when the frame began.
    """

    of_classes: bool
    of_modes: bool
    modes: list[VariableTracker] = field(default_factory=list)
    before: tuple[VariableTracker, ...] = ()

    def innermost(self) -> VariableTracker | None:
        """The mode that sees the next call."""
        return self.modes[-1] if self.of_modes and self.modes else None

    def sees(self, target: object) -> bool:
        """Whether a mode may have a say in a call of a function, or of the method of a name."""
        if not self.of_modes or not self.modes:
            return False
        only_devices = all(mode.python_type() is DeviceContext for mode in self.modes)
        return not only_devices or (callable(target) and target in _device_constructors())

    def default_device(self) -> torch.device | None:
        """What the innermost of the default devices is; None if there is none."""
        modes = reversed(self.modes) if self.of_modes else ()
        return next((m.device for m in modes if m.python_type() is DeviceContext), None)  # type: ignore[attr-defined]

    @contextmanager
    def without_innermost(self) -> Iterator[None]:
        """A mode's own calls are seen by those around it."""
        mode = self.modes.pop()
        try:
            yield
        finally:
            self.modes.append(mode)

    def disable(self, *, modes_too: bool) -> tuple[bool, bool]:
        """Let classes have no say from here on; what to go back to."""
        before = self.of_classes, self.of_modes
        self.of_classes, self.of_modes = False, self.of_modes and not modes_too
        return before

    def restore(self, before: tuple[bool, bool]) -> None:
        """Go back to a state."""
        self.of_classes, self.of_modes = before

    @contextmanager
    def disabled(self, *, modes_too: bool) -> Iterator[None]:
        """Inside of the block classes have no overrides."""
        before = self.disable(modes_too=modes_too)
        try:
            yield
        finally:
            self.restore(before)

    def changes(self) -> tuple[int, list[VariableTracker]]:
        """How many modes the captured code has left, and those that it has entered instead."""
        pairs = zip(self.before, self.modes, strict=False)
        kept = next((i for i, (old, new) in enumerate(pairs) if old is not new), None)
        if kept is None:
            kept = min(len(self.before), len(self.modes))
        return len(self.before) - kept, self.modes[kept:]


def overrides_functions(cls: Any) -> bool:
    """Whether instances of a class have a say in PyTorch's functions.

    Those of `torch.Tensor` have none, nor those of `torch.nn.Parameter`.
    """
    override = getattr(cls, "__torch_function__", None)
    if override is None or override is torch._C._disabled_torch_function_impl:
        return False
    return cls is not torch.Tensor
