"""The overrides of PyTorch's functions in force: classes with ``__torch_function__``, and modes.

While a frame is captured no override really runs: PyTorch's own dispatch is switched off, and
capture dispatches itself, on trackers (`trackers/torch_values/overriding.py`). This module holds
the state that decides about the dispatch, as PyTorch keeps it for each thread.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import torch

from minitorch2.foundation.module_names import is_in_package
from minitorch2.native.torch_internals.modes import (
    DeviceContext,
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    are_function_modes_disabled,
    are_overrides_enabled,
    count_function_modes,
    enable_torch_function,
    function_mode_at,
    no_torch_function,
    set_state,
)
from minitorch2.native.torch_internals.nested import NestedTensor

R = TypeVar("R")
_NOTHING: Final = nullcontext()


def in_default_device(function: Callable[..., R], device: torch.device | None) -> Callable[..., R]:
    """Wrap a function that a graph calls as a whole, so that it runs with a default device."""
    return function if device is None else with_overrides(function, device)


def with_overrides(function: Callable[..., R], context: Any = _NOTHING) -> Callable[..., R]:
    """Wrap a function that a graph calls as a whole, so that overrides act, and in a context."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> R:
        with enable_torch_function(), context:
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
        """Return the present state; in a compilation, the state outside of it."""
        return _HIDDEN.get() or ActiveOverrides(
            are_overrides_enabled(), not are_function_modes_disabled(), active_modes()
        )


_HIDDEN = ContextVar[ActiveOverrides | None]("hidden", default=None)
"""The state outside of a compilation. It ends with its context, however that ends."""


def hiding_overrides(work: Callable[[], R]) -> R:
    """Return the result of `work`, with all overrides hidden until the present context ends."""
    _HIDDEN.set(now := ActiveOverrides.now())
    with DisableTorchFunction() if now.modes else DisableTorchFunctionSubclass():
        return work()


def classes_have_overrides() -> bool:
    """Return whether overrides of classes act; guards ask."""
    return ActiveOverrides.now().of_classes


def active_modes() -> tuple[tuple[int, object], ...]:
    """Return this thread's modes, without this project's own, and their places on the stack."""
    places = range(count_function_modes())
    stack = ((i, function_mode_at(i)) for i in places)
    return tuple((i, mode) for i, mode in stack if not is_own(mode))


class OverridesRegion:
    """The rest of a ``with torch._C.DisableTorchFunctionSubclass()`` in which a graph breaks.

    Attributes:
        modes_too: whether modes are switched off, as `torch._C.DisableTorchFunction` does.
        before: whether overrides of classes and modes acted before.
    """

    def __init__(self, modes_too: bool, before: tuple[bool, bool]) -> None:
        self.modes_too, self.before = modes_too, before

    def __enter__(self) -> None:
        """Do nothing: the captured code has entered the region."""

    def __exit__(self, *exception: object) -> None:
        set_state(*self.before)


def mode_at(place: int) -> object:
    """Return the mode at a place of PyTorch's stack; None if the stack ends before."""
    if place >= count_function_modes():
        return None
    return function_mode_at(place)


def device_of_modes() -> torch.device | None:
    """Return the default device that a mode sets; guards ask, so no mode must notice."""
    devices = (mode.device for _, mode in active_modes() if isinstance(mode, DeviceContext))
    return next(devices, None)


def is_own(mode: object) -> bool:
    """Return whether a mode belongs to this project: `explain` counts operators with one."""
    return is_in_package(type(mode).__module__, "minitorch2")


def without_overrides(call: Callable[..., R]) -> Callable[..., R]:
    """Wrap `call` to run without overrides: their effects are in its graph already."""

    def run(*args: Any) -> R:
        with DisableTorchFunction():
            return call(*args)

    return run


def overrides_functions(cls: Any) -> bool:
    """Return whether instances of a class override PyTorch's functions.

    Instances of `torch.Tensor` and `torch.nn.Parameter` do not. PyTorch's jagged tensors override
    some, which is a part of what these functions do: they run `with_overrides`.
    """
    override = getattr(cls, "__torch_function__", None)
    if override is None or override is no_torch_function:
        return False
    return cls not in (torch.Tensor, NestedTensor)
