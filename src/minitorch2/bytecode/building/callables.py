"""From real functions, methods, classes and modules of Python to trackers."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any, Final

import torch

from minitorch2.bytecode.building.guarding import (
    by_identity,
    class_guards,
    guarded,
    identity_guards,
    type_guards,
)
from minitorch2.bytecode.building.objects import wrap_object
from minitorch2.bytecode.frames.skip_files import TORCH
from minitorch2.bytecode.guards import Guard
from minitorch2.bytecode.guards.sources import (
    AttributeSource,
    CellSource,
    ClosureSource,
    LocalSource,
    Source,
)
from minitorch2.bytecode.polyfills import GETTERS, POLYFILLS
from minitorch2.bytecode.trackers import control_rules
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.descriptors import (
    BUILTIN_METHODS,
    BuiltinMethodVariable,
    class_lookup,
    is_trusted,
)
from minitorch2.bytecode.trackers.get_attr import BoundMethodVariable, GetAttrVariable
from minitorch2.bytecode.trackers.interfaces import Capture
from minitorch2.bytecode.trackers.python_values.builtin import BUILTINS, PURE, BuiltinVariable
from minitorch2.bytecode.trackers.python_values.cell import CellVariable
from minitorch2.bytecode.trackers.python_values.classes import ClassVariable, PolyfillClassVariable
from minitorch2.bytecode.trackers.python_values.dispatching import DISPATCH, DispatchVariable
from minitorch2.bytecode.trackers.python_values.functions import (
    CachedFunctionVariable,
    GetterVariable,
    OperatorPolyfillVariable,
    PartialVariable,
    PolyfillVariable,
    UserFunctionVariable,
)
from minitorch2.bytecode.trackers.python_values.made_records import REPR_GUARDS
from minitorch2.bytecode.trackers.python_values.mapping import DictVariable
from minitorch2.bytecode.trackers.python_values.python_module import PythonModuleVariable
from minitorch2.bytecode.trackers.python_values.sequence import TupleVariable
from minitorch2.bytecode.trackers.torch_values.accessors import AccessorVariable, AttributeVariable
from minitorch2.bytecode.trackers.torch_values.tensor_names import words
from minitorch2.bytecode.trackers.torch_values.torch_function import (
    TorchVariable,
    is_torch_function,
)
from minitorch2.bytecode.trackers.torch_values.transform_rules import transformed_outside
from minitorch2.native.torch_internals.operators import CustomOpDef

UNCOMPILED: Final = TORCH + "_compile.py"


TENSOR_FILE: Final = TORCH + "_tensor.py"


def wrap_function(capture: Capture, value: types.FunctionType, source: Source) -> VariableTracker:
    """Return the tracker of a Python function: inlined, unless a rule or stand-in is known."""
    if value in POLYFILLS:
        identity_guards(capture, value, source)
        return _polyfill(capture, value)
    if value.__code__.co_qualname in REPR_GUARDS and is_trusted(value.__globals__.get("__name__")):
        return capture.wrap(value.__dict__["__wrapped__"], AttributeSource(source, "__wrapped__"))
    if control_rules.is_captured_as_written(value):
        name = control_rules.ORIGINAL_BY_TORCH
        return capture.wrap(value.__dict__[name], AttributeSource(source, name))
    cell = control_rules.patched_by_torch(value)
    if cell is not None:
        assert value.__closure__ is not None
        return capture.wrap(value.__closure__[cell].cell_contents, ClosureSource(source, cell))
    request = value if value in BUILTINS or value in PURE else control_rules.request_of(value)
    if request is not None:
        return BuiltinVariable(
            request, source=source, guards=identity_guards(capture, value, source)
        )
    if is_torch_function(value):
        return TorchVariable(value, source=source, guards=identity_guards(capture, value, source))
    if value.__code__ is DISPATCH:
        return DispatchVariable(
            value, source=source, guards=identity_guards(capture, value, source)
        )
    if value.__code__.co_filename == UNCOMPILED and hasattr(value, "__wrapped__"):
        # PyTorch hides the functions that it wraps there from its own compiler.
        identity_guards(capture, value, source)
        return capture.wrap(value.__wrapped__, AttributeSource(source, "__wrapped__"))
    if _is_tensor_method(value):
        return _tensor_method(capture, value, source)
    if isinstance(source.root(), LocalSource | CellSource):
        # A caller often makes its function anew for each call: the same code in the same module
        # will do, as defaults and closure are guarded where they are used.
        parts = ((name, getattr(value, name)) for name in ("__code__", "__globals__"))
        guards = frozenset[Guard]().union(
            *(identity_guards(capture, p, AttributeSource(source, name)) for name, p in parts)
        )
    else:
        guards = identity_guards(capture, value, source)
    made = transformed_outside(capture, value, source, guards)
    return made or UserFunctionVariable(value, source=source, guards=guards)


def _is_tensor_method(value: types.FunctionType) -> bool:
    """Return whether a function is a tensor method with a rule (not ``__torch_function__``)."""
    is_here = value.__code__.co_filename == TENSOR_FILE and hasattr(torch.Tensor, value.__name__)
    return is_here and value.__name__ != "__torch_function__"


def _tensor_method(capture: Capture, value: Any, source: Source) -> VariableTracker:
    """Return the tracker of a method of `torch.Tensor` in Python: ``torch.Tensor.__rsub__``."""
    method = BuiltinMethodVariable(
        value, value.__name__, None, capture.wrap(torch.Tensor, capture.reference(torch.Tensor))
    )
    method.guards |= identity_guards(capture, value, source)
    return method


_OF_OTHERS: Final = words("asynchronous bodies caches classes iterators locks texts values warning")
"""Modules of stand-ins for the standard library and `torch.optim`, which run at breaks."""


def _polyfill(capture: Capture, value: Any) -> VariableTracker:
    body = POLYFILLS[value]
    if isinstance(body, types.FunctionType):
        module = body.__module__  # some replace PyTorch's or NumPy's functions at breaks, too
        runs_itself = module.startswith("minitorch2.") and module.split(".")[-1] not in _OF_OTHERS
        if is_torch_function(value):
            return OperatorPolyfillVariable(body, value)
        return PolyfillVariable(body, body if runs_itself else value)
    assert isinstance(body, type)
    return PolyfillClassVariable(body, value)


def wrap_torch_function(capture: Capture, value: Any, source: Source) -> VariableTracker:
    """Return the tracker of a function of PyTorch that becomes a node of the graph."""
    return TorchVariable(value, source=source, guards=identity_guards(capture, value, source))


def wrap_custom_operator(capture: Capture, value: CustomOpDef, source: Source) -> VariableTracker:
    """Return the tracker of a `torch.library.custom_op`: calling it calls its overload."""
    identity_guards(capture, value, source)
    overload = value._opoverload  # the public way to it is by its name, through torch.ops
    return capture.wrap(overload, capture.reference(overload))


wrap_plain_builtin = by_identity(BuiltinVariable)  # a function that Cython compiled
wrap_attribute = by_identity(AttributeVariable)  # such as `torch.Tensor.shape`
wrap_python_module = by_identity(PythonModuleVariable)


def wrap_builtin(
    capture: Capture, value: types.BuiltinFunctionType, source: Source
) -> VariableTracker:
    """Return the tracker of a function or method written in C."""
    if value in POLYFILLS:
        identity_guards(capture, value, source)
        return _polyfill(capture, value)
    if is_torch_function(value):
        return wrap_torch_function(capture, value, source)
    owner = value.__self__
    is_function = isinstance(owner, types.ModuleType) or not hasattr(type(owner), value.__name__)
    if is_function or value in BUILTINS or value in PURE:
        return BuiltinVariable(value, source=source, guards=identity_guards(capture, value, source))
    if isinstance(owner, type):
        cls = capture.wrap(owner, capture.reference(owner))
        identity_guards(capture, value, source)
        return BuiltinMethodVariable(value, value.__name__, None, cls)
    guards = guarded(capture, *type_guards(capture, value, source))
    capture.wrap(value.__name__, AttributeSource(source, "__name__"))
    method = _method_of_owner(capture, value, source)
    method.guards |= guards
    return method


def _method_of_owner(capture: Capture, value: Any, source: Source) -> VariableTracker:
    """A bound method written in C; perhaps one that its owner's class overrides in Python."""
    owner, name = value.__self__, value.__name__
    tracker = capture.wrap(owner, AttributeSource(source, "__self__"))
    if not isinstance(class_lookup(type(owner), name)[1], types.FunctionType):
        return GetAttrVariable(tracker, name)
    found: Iterator[Any] = (vars(base).get(name) for base in type(owner).__mro__)
    is_same = (raw for raw in found if type(raw) in BUILTIN_METHODS and raw.__get__(owner) == value)
    cls = capture.wrap(type(owner), capture.reference(type(owner)))
    return BuiltinMethodVariable(next(is_same), name, tracker, cls)


def wrap_descriptor(capture: Capture, value: Any, source: Source) -> VariableTracker:
    """Return the tracker of a method of a class, such as ``torch.Tensor.add`` or ``dict.get``."""
    guards = identity_guards(capture, value, source)
    cls = capture.wrap(value.__objclass__, capture.reference(value.__objclass__))
    method = BuiltinMethodVariable(value, value.__name__, None, cls)
    method.guards |= guards
    return method


def wrap_accessor(
    capture: Capture, value: types.MethodWrapperType, source: Source
) -> VariableTracker:
    """``torch.Tensor.shape.__get__``; of anything else, the method of its owner."""
    if isinstance(value.__self__, types.GetSetDescriptorType):
        capture.wrap(value.__self__, AttributeSource(source, "__self__"))
        return AccessorVariable(value, source=source)
    return _method_of_owner(capture, value, source)


def wrap_method(capture: Capture, value: types.MethodType, source: Source) -> VariableTracker:
    """Return the tracker of a bound method."""
    guards = guarded(capture, *type_guards(capture, value, source))
    function = capture.wrap(value.__func__, AttributeSource(source, "__func__"))
    owner = capture.wrap(value.__self__, AttributeSource(source, "__self__"))
    if owner.knows_methods_by_name:
        return GetAttrVariable(owner, value.__name__)
    method = BoundMethodVariable(function, owner, source)
    method.guards |= guards
    return method


_OF_PARTIALS: Final = {
    name: getattr(functools.partial, name) for name in ("func", "args", "keywords", "__call__")
}


def wrap_partial(
    capture: Capture, value: functools.partial[Any], source: Source
) -> VariableTracker:
    """Return the tracker of a `functools.partial`, or of an object of a class that changes it."""
    if any(getattr(type(value), name) is not member for name, member in _OF_PARTIALS.items()):
        return wrap_object(capture, value, source)
    guards = guarded(capture, *type_guards(capture, value, source))
    function = capture.wrap(value.func, AttributeSource(source, "func"))
    args = capture.wrap(value.args, AttributeSource(source, "args"))
    keywords = capture.wrap(value.keywords, AttributeSource(source, "keywords"))
    assert isinstance(args, TupleVariable) and isinstance(keywords, DictVariable)
    named = {key.as_constant(): element for key, element in keywords.pairs()}
    return PartialVariable(function, args.realized(), named, value, source=source, guards=guards)


def wrap_getter(capture: Capture, value: Any, source: Source) -> VariableTracker:
    """Return the tracker of an `operator.itemgetter` and its like, made as ``__reduce__`` says."""
    guards = identity_guards(capture, value, source)
    make, args = value.__reduce__()
    kwargs: dict[str, Any] = {}
    if isinstance(make, functools.partial):
        args, kwargs = make.args, make.keywords
    trackers = [capture.wrap(arg, None) for arg in args]
    named = {name: capture.wrap(arg, None) for name, arg in kwargs.items()}
    body = capture.wrap(GETTERS[type(value)], None)
    return GetterVariable(type(value), body, trackers, named, source=source, guards=guards)


def wrap_cached_function(capture: Capture, value: Any, source: Source) -> VariableTracker:
    """Return the tracker of a function under `functools.lru_cache`."""
    guards = identity_guards(capture, value, source)
    function = capture.wrap(value.__wrapped__, AttributeSource(source, "__wrapped__"))
    return CachedFunctionVariable(value, function, source=source, guards=guards)


def wrap_class(capture: Capture, value: type, source: Source) -> VariableTracker:
    """Return the tracker of a class."""
    guards = identity_guards(capture, value, source) | class_guards(capture, value)
    if value in POLYFILLS:
        return _polyfill(capture, value)
    return ClassVariable(value, source=source, guards=guards)


def wrap_cell(capture: Capture, value: types.CellType, source: Source) -> CellVariable:
    """Return the tracker of a cell: continuations take cells for variables that closures share."""
    guarded(capture, *type_guards(capture, value, source))
    contents = AttributeSource(source, "cell_contents")
    cell: CellVariable = capture.outer_cell(str(source), value, source, contents)
    return cell
