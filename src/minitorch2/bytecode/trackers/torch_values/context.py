"""Context managers that set a mode of PyTorch: grad mode, inference mode, autocast.

Entering and leaving one are nodes of the graph, like any other change of state; the mode really
changes while capturing, so that operators on fake tensors see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd import forward_ad

from minitorch2.bytecode.guards import Guard, Setting
from minitorch2.bytecode.guards.settings import OF_OPERATORS, READERS, Place, restore
from minitorch2.bytecode.guards.sources import AttributeSource, Source
from minitorch2.bytecode.operators.fake_call import EXIT_AUTOCAST, FakeCall
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Capture, Evaluator, Residual
from minitorch2.bytecode.trackers.modeled import ModeledVariable
from minitorch2.bytecode.trackers.observed import raise_as_observed, raise_observed
from minitorch2.bytecode.trackers.python_values.classes import constructs
from minitorch2.bytecode.trackers.python_values.constant import NONE, ConstantVariable, literal
from minitorch2.bytecode.trackers.torch_values.overriding import overridden
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.bytecode.trackers.torch_values.torch_function import handles
from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.graph.node import Node
from minitorch2.native.torch_internals.global_state import enter_autocast, exit_autocast
from minitorch2.native.torch_internals.gradients import InferenceSwitch, write_grad_mode


@handles(write_grad_mode)
def set_grad_enabled(evaluator: Evaluator, mode: VariableTracker) -> VariableTracker:
    """Change the grad mode from here on: contexts call this when they are entered and left."""
    enabled, capture = mode.truth(evaluator), evaluator.capture
    call = "call_function", write_grad_mode, [ConstantVariable(enabled)]
    if overridden(evaluator, *call) is not None:
        return NONE
    if capture.inference and torch.is_inference_mode_enabled():
        write_grad_mode(enabled)  # the graph records no gradient until the mode is left
    elif torch.is_grad_enabled() != enabled:
        capture.call_in_graph(evaluator, *call)
    return NONE


@contextmanager
def grad_mode(evaluator: Evaluator, enabled: bool) -> Iterator[None]:
    """Capture what is evaluated inside in another grad mode."""
    before = torch.is_grad_enabled()
    set_grad_enabled(evaluator, ConstantVariable(enabled))
    try:
        yield
    finally:
        set_grad_enabled(evaluator, ConstantVariable(before))


class InferenceVariable(ModeledVariable):
    """The switch that ``torch.inference_mode(mode)`` makes and leaves; to make it enters the mode.

    The graph only switches gradients; behind it, residual code makes the results that leave it
    tensors of inference mode (`as_inference_tensor`).
    """

    def __init__(self, mode: bool, records_before: bool) -> None:
        super().__init__()
        self.mode, self.records_before = mode, records_before
        self.switch, self.entered = InferenceSwitch(mode), True

    def python_type(self) -> type:
        return InferenceSwitch

    def py___enter__(self, evaluator: Evaluator) -> None:
        """Do nothing: the mode is on already."""

    def py___exit__(self, evaluator: Evaluator, *exception: VariableTracker) -> None:
        if [self] != evaluator.capture.inference[-1:]:
            unsupported("torch-context", "inference mode is left where it was not entered")
        self.entered = False
        self.leave(evaluator.capture)

    def leave(self, capture: Capture) -> None:
        """Leave the mode on this thread, and let the graph record gradients as before."""
        capture.inference.remove(self)
        self.switch.__exit__(None, None, None)
        before = (self.records_before,)
        capture.graph.call_function(write_grad_mode, before).meta["impure"] = True

    def reconstruct(self, residual: Residual) -> str:
        name = residual.new_name("mode")
        with residual.writing(residual.effects):
            residual.emit(f"{name} = {residual.reference(InferenceSwitch)}({self.mode})")
            if not self.entered:
                residual.emit(f"{name}.__exit__(None, None, None)")
        return name


@constructs(InferenceSwitch)
def make_inference_switch(evaluator: Evaluator, mode: VariableTracker) -> VariableTracker:
    """Enter ``torch.inference_mode(mode)``."""
    capture, inside = evaluator.capture, torch.is_inference_mode_enabled()
    if capture.levels or (inside and not (mode.truth(evaluator) or capture.inference)):
        unsupported("torch-context", "inference mode in forward mode, or left for a while")
    made = InferenceVariable(mode.truth(evaluator), torch.is_grad_enabled() and not inside)
    capture.inference.append(made)
    capture.graph.call_function(write_grad_mode, (not made.mode,)).meta["impure"] = True
    return made


def made_in_inference(outputs: Sequence[Node]) -> dict[Node, Callable[..., torch.Tensor]]:
    """Return the outputs of a graph that the program made in inference mode, which it entered."""
    if torch.is_inference_mode_enabled():
        return {}
    made = [n for n in outputs if n.op != "placeholder" and isinstance(n.meta["val"], FakeTensor)]
    found = (node for node in made if node.meta["val"].meta.is_inference())
    return dict.fromkeys(found, as_inference_tensor)


def as_inference_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of inference mode on a tensor's memory."""
    place = tensor.storage_offset(), tensor.size(), tensor.stride()
    with InferenceSwitch(True):
        return tensor.new_empty(0).set_(tensor.untyped_storage(), *place)


class AutocastVariable(ModeledVariable):
    """``torch.autocast(device_type, dtype, enabled, cache_enabled)``."""

    def __init__(self, arguments: dict[str, Any], **options: Any) -> None:
        super().__init__(**options)
        self.arguments = arguments
        self.entered: list[VariableTracker] = []

    def python_type(self) -> type:
        return torch.autocast

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        decorate: Any = torch.autocast.__call__
        function = evaluator.capture.wrap(decorate, evaluator.capture.reference(decorate))
        return function.call(evaluator, [self, *args], kwargs)

    def py___enter__(self, evaluator: Evaluator) -> None:
        if self.entered:
            unsupported("autocast", "a torch.autocast that is entered twice")
        args = [ConstantVariable(self.arguments[name]) for name in AUTOCAST_PARAMETERS]
        made = evaluator.capture.call_in_graph(evaluator, "call_function", enter_autocast, args)
        self.entered.append(made)

    def py___exit__(self, evaluator: Evaluator, *exception: VariableTracker) -> VariableTracker:
        args = [self.entered.pop()]
        evaluator.capture.call_in_graph(evaluator, "call_function", exit_autocast, args)
        return NONE

    def reconstruct(self, residual: Residual) -> str:
        if self.source is not None and not self.entered:
            return residual.load(self.source)
        parts = ", ".join(
            f"{name}={residual.name_for(ConstantVariable(self.arguments[name]))}"
            for name in AUTOCAST_PARAMETERS
        )
        made = residual.bind(f"{residual.reference(torch.autocast)}({parts})", "mode")
        if self.entered:
            with residual.writing(residual.effects):
                residual.emit(f"{made}.__enter__()")
        return made


AUTOCAST_PARAMETERS = ("device_type", "dtype", "enabled", "cache_enabled")


@constructs(torch.autocast)
def make_autocast(
    evaluator: Evaluator, *args: VariableTracker, **kwargs: VariableTracker
) -> VariableTracker:
    """``torch.autocast(...)`` with constant arguments."""
    values: dict[str, Any] = {"dtype": None, "enabled": True, "cache_enabled": None}
    values |= {n: v.as_constant() for n, v in zip(AUTOCAST_PARAMETERS, args, strict=False)}
    values |= {name: value.as_constant() for name, value in kwargs.items()}
    if "device_type" not in values:
        raise_observed(TypeError, "autocast() missing 1 required argument: 'device_type'")
    values["enabled"] = bool(values["enabled"])
    if values["dtype"] is None and torch.amp.is_autocast_available(values["device_type"]):
        values["dtype"] = _default_dtype(evaluator, values["device_type"])
    return AutocastVariable(values)


def _default_dtype(evaluator: Evaluator, device_type: str) -> torch.dtype:
    """Return the dtype in force now; graphs rely on it unless the program itself has set it."""
    dtype = torch.get_autocast_dtype(device_type)
    if not evaluator.capture.autocasts:
        asked = Setting(torch.get_autocast_dtype, (device_type,), repr(dtype))
        evaluator.capture.add_guard(asked)
    return dtype


@constructs(torch.cpu.amp.autocast)
def make_cpu_autocast(
    evaluator: Evaluator, *args: VariableTracker, **kwargs: VariableTracker
) -> VariableTracker:
    """``torch.cpu.amp.autocast(enabled, dtype, cache_enabled)``, the old name."""
    named = dict(zip(("enabled", "dtype", "cache_enabled"), args, strict=False)) | kwargs
    named.setdefault("dtype", ConstantVariable(torch.bfloat16))
    return make_autocast(evaluator, ConstantVariable("cpu"), **named)


def autocast_of(
    capture: Capture, value: torch.autocast, source: Source, guards: frozenset[Guard]
) -> VariableTracker:
    """Return the tracker of a context manager from outside, with guards on its arguments."""
    fields = ("device", "fast_dtype", "_enabled", "_cache_enabled")
    parts = {
        name: capture.wrap(getattr(value, name), AttributeSource(source, name)) for name in fields
    }
    values = [part.as_constant() for part in parts.values()]
    arguments = dict(zip(AUTOCAST_PARAMETERS, values, strict=True))
    return AutocastVariable(arguments, source=source, guards=guards)


class EnteredAutocast(VariableTracker):
    """The value that entering autocast gives, for leaving it."""

    def __init__(self, node: Any) -> None:
        super().__init__()
        self.node = node

    def as_argument(self) -> Any:
        return self.node


def _rules_of_setting(write: Any, read: Any) -> None:
    @handles(read)
    def ask(evaluator: Evaluator, *place: VariableTracker) -> VariableTracker:
        found = tuple(each.as_constant() for each in place)
        _note_setting(evaluator, write, found)
        return literal(read(*found))

    @handles(write)
    def change(evaluator: Evaluator, *args: VariableTracker) -> VariableTracker:
        *place, value = (each.as_constant() for each in args)
        _note_setting(evaluator, write, tuple(place))
        if read(*place) == value:
            return NONE
        if write in OF_OPERATORS:
            evaluator.capture.call_in_graph(evaluator, "call_function", write, args)
            return NONE
        if place or write is torch.set_deterministic_debug_mode:  # which lowerings ask for
            unsupported("torch-context", f"{write.__name__} changes what a graph is compiled for")
        try:
            write(*place, value)
        except TypeError as error:
            raise_as_observed(error)
        return NONE


for _write, _read in READERS.items():
    _rules_of_setting(_write, _read)


def _note_setting(evaluator: Evaluator, write: Any, place: tuple[Any, ...]) -> None:
    """Rely on the value that a setting has when the frame begins."""
    capture, read = evaluator.capture, READERS[write]
    if (write, place) not in capture.settings:
        value = capture.settings[write, place] = read(*place)
        capture.add_guard(Setting(read, place, repr(value)))


def leave_contexts(capture: Capture) -> list[tuple[Place, Any]]:
    """Leave, on this thread, what the capture has entered, and restore what it has set.

    Autocast is left at the end of the graph, too.

    Returns:
        The settings that the captured code has changed, with the values that it has left.
    """
    for inference in [*reversed(capture.inference)]:
        inference.leave(capture)
    for node, mode in reversed(capture.autocasts):
        EXIT_AUTOCAST(mode)
        capture.graph.call_function(EXIT_AUTOCAST, (node,)).meta["impure"] = True
    for _ in capture.levels:
        forward_ad.exit_dual_level()  # type: ignore[no-untyped-call]
    now = {(write, place): READERS[write](*place) for write, place in capture.settings}
    changed = [(place, value) for place, value in now.items() if value != capture.settings[place]]
    restore(reversed(capture.settings.items()))
    return changed


def under_default_dtype(
    evaluator: Evaluator,
    op: str,
    target: str | Callable[..., Any],
    args: Arguments,
    kwargs: Keywords,
) -> VariableTracker | None:
    """Write out the default dtype that the program has set; None if it is that of the graph.

    Tensors that are made get their dtype as an argument, and integers are cast before an operator
    makes floating-point numbers of them.
    """
    inner, capture = torch.get_default_dtype(), evaluator.capture
    outer = capture.settings.get((torch.set_default_dtype, ()), inner)
    if inner is outer:
        return None

    def record(args: Arguments, **more: VariableTracker) -> VariableTracker:
        torch.set_default_dtype(outer)
        try:
            return capture.call_in_graph(evaluator, op, target, args, {**kwargs, **more})
        finally:
            torch.set_default_dtype(inner)

    made = record(args)
    if not _may_have_default_dtype(made, args, outer):
        return made
    node = made.node  # type: ignore[attr-defined]
    values = capture.values_of(node.args), capture.values_of(node.kwargs)
    dtype: torch.dtype = capture.run_with_sizes(FakeCall(op, target, *values)).dtype
    if dtype is outer:
        return made
    capture.graph.erase(node)
    if not any(isinstance(each, TensorVariable) for each in args):
        return record(args, dtype=ConstantVariable(dtype))
    made = record([_cast(evaluator, each, inner) for each in args])
    if not isinstance(made, TensorVariable) or made.fake.dtype is not dtype:
        unsupported("torch-context", "an operator relies on the default dtype that was set")
    return made


def _may_have_default_dtype(made: VariableTracker, args: Arguments, dtype: torch.dtype) -> bool:
    """Tell whether an operator has made floating-point numbers of what had none."""
    fakes = [each.fake for each in args if isinstance(each, TensorVariable)]
    if not isinstance(made, TensorVariable) or any(made.fake is each for each in fakes):
        return False
    of_this = made.fake.dtype in (dtype, dtype.to_complex())
    return of_this and not any(f.is_floating_point() or f.is_complex() for f in fakes)


def _cast(evaluator: Evaluator, value: VariableTracker, dtype: torch.dtype) -> VariableTracker:
    """A tensor in another dtype; other values as they are."""
    if not isinstance(value, TensorVariable):
        return value
    return value.call_method(evaluator, "to", [ConstantVariable(dtype)], {})
