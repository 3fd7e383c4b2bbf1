"""Guards on PyTorch's own settings, which it keeps per thread or per process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from minitorch2.bytecode.guards.guard import Check, Guard, Name, Test
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

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        actual = f"{name(torch.is_grad_enabled)}()"
        condition = actual if self.enabled else f"not {actual}"
        yield Check("grad mode", condition, actual, str(self.enabled))

    def tests(self) -> Sequence[Test]:
        return (Test(Op.STATE, torch.is_grad_enabled, self.enabled),)


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
)
"""The settings that PyTorch keeps per thread or per process and operators depend on. A default
device is a function mode, so it shows as their number."""


@dataclass(frozen=True)
class GlobalState(Guard):
    """PyTorch's own settings, in the order of `STATE_READERS`."""

    KIND = "GLOBAL_STATE"
    state: tuple[object, ...]

    def _asked(self) -> Iterator[tuple[str, Callable[[], object], object]]:
        """Yield the settings that matter: only deterministic algorithms fill new memory."""
        is_deterministic = True
        for (what, reader), value in zip(STATE_READERS, self.state, strict=True):
            if reader is global_state.are_algorithms_deterministic:
                is_deterministic = bool(value)
            if is_deterministic or reader is not _FILLS_NEW_MEMORY:
                yield what, reader, value

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        for what, reader, value in self._asked():
            actual = f"{name(reader)}()"
            condition = actual if value is True else f"not {actual}"
            if not isinstance(value, bool) and value != 0:
                condition = f"{actual} == {name(value)}"
            yield Check(what, condition, actual, str(value))

    def tests(self) -> Sequence[Test]:
        return [Test(Op.STATE, reader, value) for _, reader, value in self._asked()]


@dataclass(frozen=True)
class DefaultDevice(Guard):
    """The device of factories inside ``with torch.device(...)``; None if no mode sets one."""

    KIND = "DEFAULT_DEVICE"
    device: torch.device | None

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        actual = f"{name(device_of_modes)}()"
        yield Check("default device", f"{actual} == {name(self.device)}", actual, str(self.device))


@dataclass(frozen=True)
class OverridesOfClasses(Guard):
    """The setting that says whether ``__torch_function__`` of classes overrides functions."""

    KIND = "TORCH_FUNCTION"
    enabled: bool

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        actual = f"{name(classes_have_overrides)}()"
        condition = actual if self.enabled else f"not {actual}"
        yield Check("overrides of classes", condition, actual, str(self.enabled))

    def tests(self) -> Sequence[Test]:
        return (Test(Op.STATE, classes_have_overrides, self.enabled),)


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

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        actual = f"{name(autocast_dtypes)}()"
        condition = f"{actual} == {name(self.dtypes)}"
        if not self.dtypes:
            condition = f"not {name(global_state.is_any_autocast_enabled)}()"
        yield Check("autocast", condition, actual, str(self.dtypes))

    def tests(self) -> Sequence[Test]:
        if not self.dtypes:
            return (Test(Op.STATE, global_state.is_any_autocast_enabled, False),)
        return (Test(Op.STATE, autocast_dtypes, self.dtypes),)


@dataclass(frozen=True)
class AutocastDtype(Guard):
    """The dtype that an autocast region uses which names none, in force or not."""

    KIND = "AUTOCAST_DTYPE"
    device_type: str
    dtype: torch.dtype

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        actual = f"{name(torch.get_autocast_dtype)}({self.device_type!r})"
        condition = f"{actual} is {name(self.dtype)}"
        yield Check("autocast dtype", condition, actual, str(self.dtype))


@dataclass(frozen=True)
class Setting(Guard):
    """A setting of the process that the program reads or changes, by the text of its value."""

    KIND = "SETTING"
    read: Callable[..., object]
    place: tuple[object, ...]
    value: str

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        actual = f"{name(repr)}({name(self.read)}({', '.join(map(name, self.place))}))"
        yield Check(self.read.__name__, f"{actual} == {self.value!r}", actual, self.value)


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
