"""Functions and contexts about overrides: ``DisableTorchFunctionSubclass``, modes, subclassing."""

from __future__ import annotations

from typing import Any

import torch

from minitorch2.bytecode.guards import Guard
from minitorch2.bytecode.guards.overrides import OverridesRegion
from minitorch2.bytecode.guards.sources import AttributeSource, Source
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Capture, Evaluator, Residual
from minitorch2.bytecode.trackers.modeled import ModeledVariable
from minitorch2.bytecode.trackers.python_values.builtin import models
from minitorch2.bytecode.trackers.python_values.classes import ClassVariable, constructs
from minitorch2.bytecode.trackers.python_values.constant import (
    CONSTANT_CONTEXTS,
    NONE,
    ConstantVariable,
    fold,
    is_none,
)
from minitorch2.bytecode.trackers.python_values.mapping import DictVariable
from minitorch2.bytecode.trackers.torch_values.intercept import OverridableCall
from minitorch2.bytecode.trackers.torch_values.overriding import (
    dispatch,
    has_override,
    has_overrides,
)
from minitorch2.bytecode.trackers.torch_values.tensor import SPECIAL_METHODS, TensorVariable
from minitorch2.bytecode.trackers.torch_values.tensor_subclass import new_tensor
from minitorch2.bytecode.trackers.torch_values.torch_function import handles
from minitorch2.native.torch_internals import modes
from minitorch2.native.torch_internals.functions import make_tensor_subclass
from minitorch2.native.torch_internals.global_state import with_number

# Regions ------------------------------------------------------------------------------------------


class DisabledOverridesVariable(ModeledVariable):
    """``torch._C.DisableTorchFunctionSubclass()``, or `DisableTorchFunction` (modes, too)."""

    knows_methods_by_name = True

    def __init__(self, cls: Any, before: tuple[bool, bool] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.cls, self.before = cls, before

    def python_type(self) -> type:
        return self.cls  # type: ignore[no-any-return]

    def py___enter__(self, evaluator: Evaluator) -> None:
        self.before = evaluator.capture.overrides.disable(modes_too=self.modes_too)

    def py___exit__(self, evaluator: Evaluator, *exception: VariableTracker) -> VariableTracker:
        assert self.before is not None
        evaluator.capture.overrides.restore(self.before)
        self.before = None
        return NONE

    @property
    def modes_too(self) -> bool:
        """True if modes are switched off, too."""
        return self.cls is modes.DisableTorchFunction

    def reconstruct(self, residual: Residual) -> str:
        if self.before is None:
            return residual.bind(f"{residual.reference(self.cls)}()", "region")
        cls = residual.reference(OverridesRegion)
        return residual.bind(f"{cls}({self.modes_too}, {self.before})", "region")


def region_of(
    capture: Capture, value: OverridesRegion, source: Source, guards: frozenset[Guard]
) -> VariableTracker:
    """Return the tracker of a region that was entered in front of a break."""
    for name in ("modes_too", "before"):
        capture.wrap(getattr(value, name), AttributeSource(source, name)).as_constant()
    classes = modes.DisableTorchFunctionSubclass, modes.DisableTorchFunction
    return DisabledOverridesVariable(
        classes[value.modes_too], value.before, source=source, guards=guards
    )


def _region(cls: Any) -> None:
    @constructs(cls)
    def make(evaluator: Evaluator) -> VariableTracker:
        return DisabledOverridesVariable(cls)


for _cls in (modes.DisableTorchFunctionSubclass, modes.DisableTorchFunction):
    _region(_cls)

# Questions ----------------------------------------------------------------------------------------


@handles(torch.overrides.has_torch_function, modes.has_any_override_in)
def has_torch_function(evaluator: Evaluator, values: VariableTracker) -> VariableTracker:
    """``has_torch_function(values)``: whether a mode, or a class of a value, has an override."""
    return has_torch_function_variadic(evaluator, *values.items(evaluator))


@handles(
    torch.overrides.has_torch_function_unary,
    torch.overrides.has_torch_function_variadic,
    modes.has_override_of,
    modes.has_any_override,
)
def has_torch_function_variadic(evaluator: Evaluator, *values: VariableTracker) -> VariableTracker:
    """``has_torch_function(values)`` with the values one by one."""
    mode = evaluator.capture.overrides.innermost()
    return ConstantVariable(mode is not None or has_overrides(evaluator, values))


@handles(modes.are_overrides_enabled)
def is_torch_function_enabled(evaluator: Evaluator) -> VariableTracker:
    """Return whether overrides of classes act now."""
    return ConstantVariable(evaluator.capture.overrides.of_classes)


@handles(torch.overrides.handle_torch_function)
def handle_torch_function(
    evaluator: Evaluator,
    public_api: VariableTracker,
    relevant_args: VariableTracker,
    *args: VariableTracker,
    **kwargs: VariableTracker,
) -> VariableTracker:
    """Call the overrides, as PyTorch's functions that are written in Python do."""
    overrides = evaluator.capture.overrides
    relevant = [
        a for a in relevant_args.items(evaluator) if overrides.of_classes and has_override(a)
    ]
    function = getattr(public_api, "value", None)
    if function is None:
        unsupported("call", "the overrides of a function that is made here")
    return dispatch(evaluator, OverridableCall(function, tuple(relevant), args, kwargs))


@models(modes.no_torch_function)
def without_override(
    evaluator: Evaluator,
    function: VariableTracker,
    types: VariableTracker,
    args: VariableTracker = NONE,
    kwargs: VariableTracker = NONE,
) -> VariableTracker:
    """Call the override that classes without one inherit from `torch.nn.Parameter`."""
    positional = [] if is_none(args) else args.items(evaluator)
    with evaluator.capture.overrides.disabled(modes_too=False):
        return function.call(evaluator, positional, keywords_of(kwargs))


def keywords_of(kwargs: VariableTracker) -> dict[str, VariableTracker]:
    """Return keyword arguments, given as a dict or as None."""
    pairs = kwargs.pairs() if isinstance(kwargs, DictVariable) else ()
    return {key.as_constant(): value for key, value in pairs}


# Modes --------------------------------------------------------------------------------------------


@models(modes.push_function_mode)
def push_mode(evaluator: Evaluator, mode: VariableTracker) -> None:
    """Enter a mode, which sees the calls of PyTorch's functions from here on."""
    evaluator.capture.overrides.modes.append(mode)


@models(modes.pop_function_mode)
def pop_mode(evaluator: Evaluator) -> VariableTracker:
    """Leave the innermost mode."""
    return evaluator.capture.overrides.modes.pop()


@handles(modes.count_function_modes)
def count_modes(evaluator: Evaluator) -> VariableTracker:
    """Return the number of modes."""
    return ConstantVariable(len(evaluator.capture.overrides.modes))


class DeviceModeVariable(VariableTracker):
    """``with torch.device(...)``: a mode that gives functions that make tensors a device."""

    def __init__(self, device: torch.device, **options: Any) -> None:
        super().__init__(**options)
        self.device = device

    def python_type(self) -> type:
        return modes.DeviceContext

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        if name != "__torch_function__":
            return super().call_method(evaluator, name, args, kwargs)
        function, _, positional, *named = args
        keywords = keywords_of(named[0]) if named else {}
        given = keywords.get("device", NONE)
        if getattr(function, "value", None) in modes.device_constructors() and is_none(given):
            keywords["device"] = ConstantVariable(self.device)
        return function.call(evaluator, positional.items(evaluator), keywords)

    def rebuild(self, residual: Residual) -> str:
        device = residual.name_for(ConstantVariable(self.device))
        return residual.bind(f"{residual.reference(modes.DeviceContext)}({device})", "mode")


def _enter_device(evaluator: Evaluator, device: ConstantVariable) -> VariableTracker:
    push_mode(evaluator, DeviceModeVariable(device.as_constant()))
    return device


def _leave_device(
    evaluator: Evaluator, device: ConstantVariable, *exception: VariableTracker
) -> VariableTracker:
    pop_mode(evaluator)
    return NONE


CONSTANT_CONTEXTS[torch.device] = {"__enter__": _enter_device, "__exit__": _leave_device}


@handles(torch.set_default_device)
def set_default_device(evaluator: Evaluator, device: VariableTracker) -> VariableTracker:
    """Set the default device: operators get it as an argument, and it lasts behind the graph."""
    overrides, outside = evaluator.capture.overrides, evaluator.capture.frame.overrides.modes
    if overrides.modes != [*overrides.before]:
        unsupported("torch-context", "a default device is set inside of modes")
    if not is_none(device):
        mode = DeviceModeVariable(fold(torch.device, [device]).as_constant())
        overrides.set_default(device, mode)
    elif any(isinstance(mode, modes.DeviceContext) for _, mode in outside):
        unsupported("torch-context", "only Python knows which device was set before")
    else:
        overrides.set_default(device, None)
    return NONE


@handles(torch.get_default_device)
def default_device(evaluator: Evaluator) -> VariableTracker:
    """Return the innermost default device; those around the captured code are guarded."""
    device = evaluator.capture.overrides.default_device() or torch.device("cpu")
    return ConstantVariable(with_number(device) if device.index is None else device)


# Subclasses ---------------------------------------------------------------------------------------


def _as_subclass(
    tensor: TensorVariable, evaluator: Evaluator, cls: VariableTracker
) -> VariableTracker:
    """``x.as_subclass(cls)``"""
    if not isinstance(cls, ClassVariable):
        unsupported("construction", "a tensor of a class that is not known")
    loses_history = tensor.fake.requires_grad and not torch.is_grad_enabled()
    if cls.value is torch.Tensor or tensor.node.op == "placeholder" or loses_history:
        # Another object on the same memory, which the graph gives; of another class, residual code
        # makes it of the graph's result.
        with evaluator.capture.overrides.disabled(modes_too=True):
            alias = torch.ops.aten.alias.default
            seen = evaluator.capture.call_in_graph(evaluator, "call_function", alias, [tensor])
        assert isinstance(seen, TensorVariable)
        tensor = seen
    return new_tensor(evaluator, cls.value, tensor)


SPECIAL_METHODS["as_subclass"] = _as_subclass


@models(make_tensor_subclass)
def make_subclass(
    evaluator: Evaluator,
    cls: VariableTracker,
    data: VariableTracker,
    require_grad: VariableTracker = NONE,
    **kwargs: VariableTracker,
) -> VariableTracker:
    """``torch.Tensor._make_subclass(cls, data, require_grad)``: a new leaf on the data's memory."""
    if not isinstance(cls, ClassVariable) or not isinstance(data, TensorVariable) or kwargs:
        unsupported("construction", "a tensor of a subclass, made with options")
    with evaluator.capture.overrides.disabled(modes_too=True):
        detached = TensorVariable.call_method(data, evaluator, "detach", [], {})
    assert isinstance(detached, TensorVariable)
    wanted = require_grad.truth(evaluator)
    made = new_tensor(evaluator, cls.value, detached, leaf_grad=wanted)
    made.data = detached
    return made
