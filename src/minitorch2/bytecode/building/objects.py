"""From instances of classes, modules of `torch.nn` among them, to trackers."""

from __future__ import annotations

import contextvars
import random
import types
from collections import OrderedDict, defaultdict
from typing import Any

import torch

from minitorch2.bytecode.building.containers import elements_of, entries_of, key_guards
from minitorch2.bytecode.building.guarding import (
    by_class,
    class_guards,
    guarded,
    identity_guards,
    type_guards,
)
from minitorch2.bytecode.frames.torchscript import is_scripted_module
from minitorch2.bytecode.guards import DistinctObjects, LengthMatch, id_match
from minitorch2.bytecode.guards.sources import AttributeSource, ContentsSource, Source
from minitorch2.bytecode.trackers import control_rules
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import class_lookup
from minitorch2.bytecode.trackers.interfaces import Capture
from minitorch2.bytecode.trackers.python_values.context_variables import (
    UNSET,
    ContextVarVariable,
    TokenVariable,
    default_of,
)
from minitorch2.bytecode.trackers.python_values.mapping import DictVariable
from minitorch2.bytecode.trackers.python_values.objects import ObjectVariable
from minitorch2.bytecode.trackers.python_values.random_generator import RandomVariable
from minitorch2.bytecode.trackers.python_values.sequence import ListVariable, TupleVariable
from minitorch2.bytecode.trackers.python_values.thread_local import ThreadLocalVariable
from minitorch2.bytecode.trackers.python_values.weak_reference import (
    WeakProxyVariable,
    WeakReferenceVariable,
)
from minitorch2.bytecode.trackers.torch_values import context, override_rules
from minitorch2.bytecode.trackers.torch_values.generator import GeneratorVariable
from minitorch2.bytecode.trackers.torch_values.nn_module import ModuleVariable
from minitorch2.bytecode.trackers.torch_values.outside_context import (
    NoContextVariable,
    OutsideContextVariable,
)
from minitorch2.native.torch_internals.modes import DeviceContext


def wrap_module(capture: Capture, value: torch.nn.Module, source: Source) -> VariableTracker:
    """Return the tracker of a module of `torch.nn`."""
    if is_scripted_module(value):
        unsupported("script-module", "a TorchScript module")
    guards = guarded(capture, *type_guards(capture, value, source))
    guards |= class_guards(capture, type(value))
    return ModuleVariable(type(value), value, source=source, guards=guards)


def wrap_object(capture: Capture, value: object, source: Source) -> VariableTracker:
    """Return the tracker of an instance; the container that it inherits from has its own."""
    cls = type(value)
    guards = guarded(capture, *type_guards(capture, value, source)) | class_guards(capture, cls)
    container: VariableTracker | None = None
    if isinstance(value, dict):
        contents, place = _contents(value, _builtin_base(cls), source)
        guards |= guarded(capture, *key_guards(capture, contents, place))
        container = DictVariable(entries_of(capture, contents, place), _builtin_base(cls))
    elif isinstance(value, list | tuple):
        kind = ListVariable if isinstance(value, list) else TupleVariable
        contents, place = _contents(value, kind.CLS, source)
        guards |= guarded(capture, LengthMatch(place, len(contents), user_line=capture.line))
        container = kind(elements_of(capture, contents, place))
    made = RandomVariable if cls is random.Random else ObjectVariable
    return made(cls, value, container, capture, source=source, guards=guards)


wrap_autocast = by_class(context.autocast_of)
wrap_overrides_region = by_class(override_rules.region_of)
wrap_weak_reference = by_class(WeakReferenceVariable)
wrap_weak_proxy = by_class(WeakProxyVariable)
wrap_thread_local = by_class(lambda _, x, **how: ThreadLocalVariable(type(x), x, **how))
wrap_outside_context = by_class(lambda _, x, **how: OutsideContextVariable(type(x), **how))
wrap_profiled = by_class(lambda _, x, **how: NoContextVariable(type(x), **how))


def wrap_context_variable(capture: Capture, value: Any, source: Source) -> VariableTracker:
    """Return the tracker of a context variable; its value is read when the program reads it."""
    guards = identity_guards(capture, value, source)
    found = default_of(value)
    default = None if found is UNSET else capture.wrap(found, None)
    return ContextVarVariable(capture, value, default, source=source, guards=guards)


def wrap_token(capture: Capture, value: Any, source: Source) -> VariableTracker:
    """Return the tracker of a token: a context variable was set before the captured code began."""
    guards = guarded(capture, *type_guards(capture, value, source))
    variable = capture.wrap(value.var, AttributeSource(source, "var"))
    assert isinstance(variable, ContextVarVariable)
    held = variable.held() or variable
    old = value.old_value
    place = AttributeSource(source, "old_value")
    if old is contextvars.Token.MISSING:
        capture.add_guard(id_match(place, old, capture.line))
    before = None if old is contextvars.Token.MISSING else capture.wrap(old, place)
    return TokenVariable(variable, held, before, None, source=source, guards=guards)


def wrap_device_mode(capture: Capture, value: DeviceContext, source: Source) -> VariableTracker:
    """Return the tracker of a default device that is in force around the captured code."""
    guards = guarded(capture, *type_guards(capture, value, source))
    capture.wrap(value.device, AttributeSource(source, "device"))
    return override_rules.DeviceModeVariable(value.device, source=source, guards=guards)


def wrap_generator(capture: Capture, value: torch.Generator, source: Source) -> VariableTracker:
    """A generator of random numbers; the default one is known by its identity."""
    if value.device.type != "cpu":
        unsupported("generator-argument", "a torch.Generator for another device than the CPU")
    if value is torch.default_generator:
        return GeneratorVariable(
            value, source=source, guards=identity_guards(capture, value, source)
        )
    guards = guarded(capture, *type_guards(capture, value, source))
    capture.wrap(value.device, AttributeSource(source, "device"))
    default = capture.reference(torch.default_generator)
    guards |= guarded(capture, DistinctObjects((source, default)))
    return GeneratorVariable(value, source=source, guards=guards)


def wrap_error_on_graph_break(capture: Capture, value: Any, source: Source) -> VariableTracker:
    """Return the tracker of a block in which breaks are errors, or are not."""
    guards = identity_guards(capture, value, source)
    return control_rules.ErrorOnGraphBreakVariable(value.error, source=source, guards=guards)


def _contents(value: Any, base: Any, source: Source) -> tuple[Any, Source]:
    """Return the contents of an instance's container part, and the source to load them from.

    If the class overrides how its instances are read, the contents are read past its methods.
    """
    names = ("__getitem__", "__iter__", "__len__", "items", "values", "keys")
    if not any(isinstance(class_lookup(type(value), n)[1], types.FunctionType) for n in names):
        return value, source
    if issubclass(base, dict):
        kind = OrderedDict if issubclass(base, OrderedDict) else dict
        return dict(kind.items(value)), ContentsSource(source, kind.__name__)
    contents = base(base.__iter__(value))
    if base not in (list, tuple):
        return contents, source
    return contents, ContentsSource(source, base.__name__)


def _builtin_base(cls: type) -> type:
    return next(c for c in cls.__mro__ if c in (dict, OrderedDict, defaultdict))
