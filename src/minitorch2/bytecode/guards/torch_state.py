"""Guards on PyTorch's own settings, which it keeps per thread or per process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from minitorch2.bytecode.guards.guard import Check, Guard
from minitorch2.bytecode.guards.overrides import classes_have_overrides, device_of_modes
from minitorch2.bytecode.guards.tensor_class import TensorClass, replaced_attributes
from minitorch2.native.cpython.guard_machine import Op
from minitorch2.native.torch_internals import global_state
from minitorch2.native.torch_internals.gradients import forward_level
from minitorch2.native.torch_internals.modes import count_dispatch_modes, count_function_modes


@dataclass(frozen=True)
class GradMode(Guard):
    """The setting of PyTorch that says whether gradients are recorded."""

    KIND = "GRAD_MODE"
    enabled: bool

    def checks(self) -> Iterable[Check]:
        return (Check("grad mode", Op.STATE, self.enabled, torch.is_grad_enabled),)


_FILLS_NEW_MEMORY = global_state.is_memory_filled
STATE_READERS: tuple[tuple[str, Callable[[], object]], ...] = (
    ("default dtype", torch.get_default_dtype),
    ("inference mode", torch.is_inference_mode_enabled),
    ("deterministic algorithms", global_state.are_algorithms_deterministic),
    ("filling of new memory", _FILLS_NEW_MEMORY),
    ("function modes", count_function_modes),
    ("dispatch modes", count_dispatch_modes),
    ("tracing by torch.jit", global_state.is_tracing),
    ("level of forward mode", forward_level),
    ("current GPU", global_state.current_gpu),
)
"""The settings that PyTorch keeps per thread or per process and operators depend on. A default
device is a function mode, so it shows as their number."""


@dataclass(frozen=True)
class GlobalState(Guard):
    """PyTorch's own settings, in the order of `STATE_READERS`."""

    KIND = "GLOBAL_STATE"
    state: tuple[object, ...]

    def checks(self) -> Iterable[Check]:
        is_deterministic = True  # only deterministic algorithms fill new memory
        for (what, reader), value in zip(STATE_READERS, self.state, strict=True):
            if reader is global_state.are_algorithms_deterministic:
                is_deterministic = bool(value)
            varies = reader is not global_state.current_gpu or torch.cuda.device_count() > 1
            if varies and (is_deterministic or reader is not _FILLS_NEW_MEMORY):
                yield Check(what, Op.STATE, value, reader)


@dataclass(frozen=True)
class DefaultDevice(Guard):
    """The device of factories inside ``with torch.device(...)``; None if no mode sets one."""

    KIND = "DEFAULT_DEVICE"
    device: torch.device | None

    def checks(self) -> Iterable[Check]:
        return (Check("default device", Op.STATE, self.device, device_of_modes),)


@dataclass(frozen=True)
class OverridesOfClasses(Guard):
    """The setting that says whether ``__torch_function__`` of classes overrides functions."""

    KIND = "TORCH_FUNCTION"
    enabled: bool

    def checks(self) -> Iterable[Check]:
        return (Check("overrides of classes", Op.STATE, self.enabled, classes_have_overrides),)


def autocast_dtypes() -> tuple[tuple[str, torch.dtype], ...]:
    """Return the types of device for which autocast is on, and the dtype it casts to on each."""
    return tuple(
        (device_type, torch.get_autocast_dtype(device_type))
        for device_type in global_state.autocast_devices()
        if torch.is_autocast_enabled(device_type)
    )


@dataclass(frozen=True)
class Autocasts(Guard):
    """Autocast is on for these types of device, with these dtypes, and for no others."""

    KIND = "AUTOCAST"
    dtypes: tuple[tuple[str, torch.dtype], ...]

    def checks(self) -> Iterable[Check]:
        if not self.dtypes:
            return (Check("autocast", Op.STATE, False, global_state.is_any_autocast_enabled),)
        return (Check("autocast", Op.STATE, self.dtypes, autocast_dtypes),)


def text_of_setting(read: Callable[..., object], *place: object) -> str:
    """Return the text of the value that a function reads."""
    return repr(read(*place))


@dataclass(frozen=True)
class Setting(Guard):
    """A setting of the process that the program reads or changes, by the text of its value."""

    KIND = "SETTING"
    read: Callable[..., object]
    place: tuple[object, ...]
    value: str

    def checks(self) -> Iterable[Check]:
        asked = text_of_setting, self.read, *self.place
        return (Check(self.read.__name__, Op.PYTHON, self.value, asked),)


SETTINGS = (GradMode, GlobalState, DefaultDevice, Autocasts)
"""The guards of `global_state_guards`."""


def global_state_guards() -> tuple[Guard, ...]:
    """Return guards on the state of PyTorch as it is now."""
    state = tuple(reader() for _, reader in STATE_READERS)
    guards = (
        GradMode(torch.is_grad_enabled()),
        GlobalState(state),
        Autocasts(autocast_dtypes()),
        TensorClass(replaced_attributes()),
    )
    if count_function_modes():
        return (*guards, DefaultDevice(device_of_modes()))
    return guards
