"""From real values to trackers: which tracker models a value, and which guards that needs.

`build` wraps a value of the outside world; `from_graph` wraps what an operation of the graph gives.
PyTorch 2 paper, section 3.4: arguments are wrapped when the frame starts, everything else when it
is first accessed.
"""

from __future__ import annotations

import functools
import operator
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy
import torch

from minitorch2 import controls
from minitorch2.bytecode.guards import (
    DictKeysMatch,
    Guard,
    LengthMatch,
    SetMatch,
    TensorMatch,
    TensorMetadata,
    TypeMatch,
    constant_match,
    id_match,
)
from minitorch2.bytecode.polyfills import GETTERS, POLYFILLS
from minitorch2.bytecode.skip_files import TORCH
from minitorch2.bytecode.sources import (
    AttributeSource,
    CellSource,
    ContentsSource,
    DictKeySource,
    DictValueSource,
    ItemSource,
    LocalSource,
    Source,
)
from minitorch2.bytecode.trackers import (
    autograd_rules,
    builtin_rules,
    constructors,
    context,
    control_rules,
    copies,
    library_rules,
    numpy_array,
    optimizer_rules,
    outside_context,
    tensor_constructors,
    weak_reference,
)
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.builtin import BUILTINS, PURE, BuiltinVariable
from minitorch2.bytecode.trackers.classes import ClassVariable
from minitorch2.bytecode.trackers.constant import (
    ConstantVariable,
    is_constant_value,
    literal,
)
from minitorch2.bytecode.trackers.context import EnteredAutocast
from minitorch2.bytecode.trackers.deque import DequeVariable
from minitorch2.bytecode.trackers.descriptors import BuiltinMethodVariable, class_lookup, is_trusted
from minitorch2.bytecode.trackers.functions import (
    CachedFunctionVariable,
    GetterVariable,
    PartialVariable,
    UserFunctionVariable,
)
from minitorch2.bytecode.trackers.get_attr import BoundMethodVariable, GetAttrVariable
from minitorch2.bytecode.trackers.key_guards import KeyGuards
from minitorch2.bytecode.trackers.lazy import LazyVariable
from minitorch2.bytecode.trackers.mapping import (
    DefaultDictVariable,
    DictVariable,
    MappingProxyVariable,
)
from minitorch2.bytecode.trackers.nn_module import ModuleVariable
from minitorch2.bytecode.trackers.objects import ObjectVariable
from minitorch2.bytecode.trackers.outside_context import OUTSIDE_CONTEXTS, OutsideContextVariable
from minitorch2.bytecode.trackers.python_module import PythonModuleVariable
from minitorch2.bytecode.trackers.range import RangeVariable
from minitorch2.bytecode.trackers.sequence import (
    ListVariable,
    NamedTupleVariable,
    SizeVariable,
    SliceVariable,
    TupleVariable,
)
from minitorch2.bytecode.trackers.set import SetVariable
from minitorch2.bytecode.trackers.symbolic import SymbolicNumberVariable, from_number
from minitorch2.bytecode.trackers.tensor import TensorVariable
from minitorch2.bytecode.trackers.torch_function import TorchVariable, is_torch_function
from minitorch2.bytecode.trackers.unmodeled_tensor import UnmodeledTensorVariable, why_unmodeled
from minitorch2.bytecode.trackers.weak_reference import WeakReferenceVariable

if TYPE_CHECKING:
    from minitorch2.bytecode.capture import Capture
    from minitorch2.graph.fake_tensor import FakeTensor
    from minitorch2.graph.node import Node

# Importing these files fills the tables of rules.
RULES: Final = (
    autograd_rules,
    builtin_rules,
    constructors,
    context,
    control_rules,
    copies,
    library_rules,
    numpy_array,
    optimizer_rules,
    outside_context,
    tensor_constructors,
    weak_reference,
)

Builder = Callable[["Capture", Any, Source], VariableTracker]

REPR_GUARDS: Final = (
    "_recursive_repr.<locals>.wrapper",
    "recursive_repr.<locals>.decorating_function.<locals>.wrapper",
)
"""Wrappers of ``__repr__`` that stop at objects that contain themselves, by `id`."""

UNCOMPILED: Final = TORCH + "_compile.py"
TENSOR_FILE: Final = TORCH + "_tensor.py"

TENSOR_TYPES: Final = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def build(capture: Capture, value: object, source: Source) -> VariableTracker:
    """The tracker of a value that `source` loads, with the guards it relies on."""
    if is_constant_value(value):
        if type(value) is int and (number := _symbolic_int(capture, value, source)) is not None:
            return number
        return ConstantVariable(value, source=source, guards=_constant(capture, value, source))
    builder = _BY_TYPE.get(type(value)) or _by_class(value)
    mark = control_rules.mark_of(value)
    if mark is None:
        return builder(capture, value, source)
    _identity(capture, value, source)
    return control_rules.MarkedVariable(value, mark, builder(capture, value, source))


def _by_class(value: object) -> Builder:
    """The builder for a value whose exact class has none."""
    if isinstance(value, torch.Tensor):
        return _tensor
    if isinstance(value, torch.nn.Module):
        return _module
    if isinstance(value, type):
        return _class
    if isinstance(value, types.ModuleType):
        return _python_module
    if isinstance(value, tuple) and _field_names(type(value)):
        return _named_tuple
    if is_trusted(type(value).__module__) and is_torch_function(value):
        return _torch_function
    if isinstance(value, functools.partial):
        return _partial
    if isinstance(value, torch.autocast):
        return _autocast
    if type(value) in OUTSIDE_CONTEXTS:
        return _outside_context
    return _object


# Guards -------------------------------------------------------------------------------------------


def _guarded(capture: Capture, *guards: Guard) -> frozenset[Guard]:
    return frozenset(capture.add_guard(guard) for guard in guards)


def _constant(capture: Capture, value: object, source: Source) -> frozenset[Guard]:
    if source.is_fixed:
        return frozenset()
    return _guarded(capture, constant_match(source, value, capture.line))


def _identity(capture: Capture, value: object, source: Source) -> frozenset[Guard]:
    """The guard that the very same object is found again, unless that cannot change."""
    if source.is_fixed:
        return frozenset()
    return _guarded(capture, id_match(source, value, capture.line))


def _type(capture: Capture, value: object, source: Source) -> list[Guard]:
    if source.is_fixed:
        return []
    return [TypeMatch(source, type(value), user_line=capture.line)]


# Tensors ------------------------------------------------------------------------------------------


def _tensor(capture: Capture, value: torch.Tensor, source: Source) -> VariableTracker:
    reason = why_unmodeled(value, TENSOR_TYPES)
    if reason is not None:
        guards = _guarded(capture, *_type(capture, value, source))
        return UnmodeledTensorVariable(type(value), reason, source=source, guards=guards)
    is_weight = type(value) is not torch.Tensor or capture.is_in_module(source)
    layout = capture.sizes.of_tensor(value, source, is_weight=is_weight)
    metadata = TensorMetadata.of(value, frozenset() if layout is None else layout.dynamic)
    guards = _guarded(capture, TensorMatch(source, metadata, user_line=capture.line))

    def make(node: Node, fake: FakeTensor) -> VariableTracker:
        own = frozenset(value.__dict__)
        return TensorVariable(node, fake, type(value), own, source=source, guards=guards)

    return capture.tensor_input(value, source, make, layout)


def _symbolic_int(capture: Capture, value: int, source: Source) -> VariableTracker | None:
    """An int that changes from call to call, as a symbol; None if it is a constant."""
    if source.is_fixed or capture.is_in_module(source):
        return None
    number = capture.sizes.of_number(value, source)
    if number is None:
        return None
    guards = _guarded(capture, TypeMatch(source, int, user_line=capture.line))
    return SymbolicNumberVariable(number, source=source, guards=guards)


def from_graph(capture: Capture, node: Node, value: object) -> VariableTracker:
    """The tracker of what a node computes: tensors, containers of tensors, or known metadata."""
    if isinstance(value, torch.Tensor):
        return TensorVariable(node, value)  # type: ignore[arg-type]
    if isinstance(value, tuple | list) and not isinstance(value, torch.Size):
        elements = [_element(capture, node, i, part) for i, part in enumerate(value)]
        return _sequence_like(value, elements)
    if isinstance(value, torch.autocast):
        return EnteredAutocast(node)
    if isinstance(value, str | bytes):
        unsupported("format", "the text of a tensor is not known while capturing")
    if not node.meta.get("impure"):
        capture.graph.erase(node)
    if isinstance(value, torch.Size):
        return SizeVariable([from_number(size) for size in value])
    return from_number(value)


def _element(capture: Capture, node: Node, index: int, value: object) -> VariableTracker:
    element = capture.graph.call_function(operator.getitem, (node, index))
    element.meta.update(val=value, source=node.meta.get("source"))
    return from_graph(capture, element, value)


def _sequence_like(value: Any, elements: list[VariableTracker]) -> VariableTracker:
    fields = _field_names(type(value))
    if fields:
        return NamedTupleVariable(elements, type(value), fields)
    return ListVariable(elements) if isinstance(value, list) else TupleVariable(elements)


# Containers ---------------------------------------------------------------------------------------


def _elements(capture: Capture, value: Any, source: Source) -> list[VariableTracker]:
    return [
        LazyVariable(capture, element, ItemSource(source, index))
        for index, element in enumerate(value)
    ]


def _sequence(cls: type[ListVariable] | type[TupleVariable]) -> Builder:
    def builder(capture: Capture, value: Any, source: Source) -> VariableTracker:
        if source.is_fixed and isinstance(value, tuple):
            return cls([capture.wrap(part, None) for part in value], source=source)
        length = LengthMatch(source, len(value), user_line=capture.line)
        guards = _guarded(capture, *_type(capture, value, source), length)
        return cls(_elements(capture, value, source), source=source, guards=guards)

    return builder


def _deque(capture: Capture, value: deque[Any], source: Source) -> VariableTracker:
    length = LengthMatch(source, len(value), user_line=capture.line)
    guards = _guarded(capture, *_type(capture, value, source), length)
    elements = _elements(capture, value, source)
    capture.wrap(value.maxlen, AttributeSource(source, "maxlen"))
    return DequeVariable(elements, value.maxlen, source=source, guards=guards)


def _field_names(cls: type) -> tuple[str, ...]:
    """Field names of a named tuple class or of one of `torch.return_types`."""
    names: Any = getattr(cls, "_fields", None) or getattr(cls, "__match_args__", ())
    return tuple(names) if issubclass(cls, tuple) else ()


def _named_tuple(capture: Capture, value: Any, source: Source) -> VariableTracker:
    guards = _guarded(capture, *_type(capture, value, source))
    elements = _elements(capture, value, source)
    cls = type(value)
    return NamedTupleVariable(elements, cls, _field_names(cls), source=source, guards=guards)


def _entries(
    capture: Capture, value: dict[Any, Any], source: Source
) -> list[tuple[VariableTracker, VariableTracker]]:
    """Keys are wrapped at once; values stay lazy."""
    entries: list[tuple[VariableTracker, VariableTracker]] = []
    for index, (key, element) in enumerate(value.items()):
        if is_constant_value(key) or _is_constant_tuple(key):
            key_tracker = literal(key)
        else:
            key_tracker = capture.wrap(key, DictKeySource(source, index))
        place: Source = DictValueSource(source, index)
        if _has_literal(key):
            place = ItemSource(source, key)
        entries.append((key_tracker, LazyVariable(capture, element, place)))
    return entries


def _is_constant_tuple(value: object) -> bool:
    return type(value) is tuple and all(
        is_constant_value(part) or _is_constant_tuple(part) for part in value
    )


def _has_literal(key: object) -> bool:
    return type(key) in (int, str, bool, bytes, type(None)) or (
        type(key) is tuple and all(_has_literal(part) for part in key)
    )


def _key_guards(capture: Capture, value: dict[Any, Any], source: Source) -> list[Guard]:
    keys = tuple(value)
    if all(is_constant_value(key) or _is_constant_tuple(key) for key in keys):
        return [DictKeysMatch(source, keys, user_line=capture.line)]
    return [LengthMatch(source, len(keys), user_line=capture.line)]


def _lazy_key_guards(capture: Capture, value: dict[Any, Any], source: Source) -> KeyGuards | None:
    """Guards on keys as they are read; None for a dict whose entries are found by position."""
    keys = tuple(value)
    return KeyGuards(capture, source, keys) if all(map(_has_literal, keys)) else None


def _dict(capture: Capture, value: dict[Any, Any], source: Source) -> VariableTracker:
    guards = _guarded(capture, *_type(capture, value, source))
    keys = _lazy_key_guards(capture, value, source)
    if keys is None:
        guards |= _guarded(capture, *_key_guards(capture, value, source))
    entries = _entries(capture, value, source)
    return DictVariable(entries, type(value), keys, source=source, guards=guards)


def _default_dict(capture: Capture, value: Any, source: Source) -> VariableTracker:
    guards = _guarded(capture, *_type(capture, value, source))
    keys = _lazy_key_guards(capture, value, source)
    if keys is None:
        guards |= _guarded(capture, *_key_guards(capture, value, source))
    factory = capture.wrap(value.default_factory, AttributeSource(source, "default_factory"))
    entries = _entries(capture, value, source)
    return DefaultDictVariable(entries, factory, key_guards=keys, source=source, guards=guards)


def _mapping_proxy(capture: Capture, value: Any, source: Source) -> VariableTracker:
    keys = _key_guards(capture, value, source)
    guards = _guarded(capture, *_type(capture, value, source), *keys)
    owner = DictVariable(_entries(capture, value, source))
    return MappingProxyVariable(owner, source=source, guards=guards)


def _set(capture: Capture, value: Any, source: Source) -> VariableTracker:
    if not all(is_constant_value(element) or _is_constant_tuple(element) for element in value):
        if all(isinstance(element, _LASTING) or is_constant_value(element) for element in value):
            return _set_of_objects(capture, value, source)
        unsupported("set-elements", "a set from outside with elements that are no constants")
    elements = SetMatch(source, frozenset(value), user_line=capture.line)
    guards = _guarded(capture, *_type(capture, value, source), elements)
    return SetVariable(map(literal, value), type(value), source=source, guards=guards)


_LASTING = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)
"""Objects that are told apart by identity and rarely die."""


def _set_of_objects(capture: Capture, value: Any, source: Source) -> VariableTracker:
    """A set of classes, functions and modules, each of them reached by a private name."""
    same = SetMatch(source, frozenset(value), user_line=capture.line)
    guards = _guarded(capture, *_type(capture, value, source), same)
    elements = [
        literal(e) if is_constant_value(e) else capture.wrap(e, capture.reference(e)) for e in value
    ]
    return SetVariable(elements, type(value), source=source, guards=guards)


def _range(capture: Capture, value: range, source: Source) -> VariableTracker:
    return RangeVariable(value, source=source, guards=_constant(capture, value, source))


def _slice(capture: Capture, value: slice, source: Source) -> VariableTracker:
    guards = _guarded(capture, *_type(capture, value, source))
    names = ("start", "stop", "step")
    parts = [capture.wrap(getattr(value, n), AttributeSource(source, n)) for n in names]
    return SliceVariable(parts, source=source, guards=guards)


# Callables, classes, modules ----------------------------------------------------------------------


def _function(capture: Capture, value: types.FunctionType, source: Source) -> VariableTracker:
    if value in POLYFILLS:
        _identity(capture, value, source)
        return _polyfill(capture, value)
    if value.__code__.co_qualname in REPR_GUARDS and is_trusted(value.__globals__["__name__"]):
        return capture.wrap(value.__dict__["__wrapped__"], AttributeSource(source, "__wrapped__"))
    if control_rules.is_compiled_by_torch(value):
        name = control_rules.COMPILED_BY_TORCH
        return capture.wrap(value.__dict__[name], AttributeSource(source, name))
    request = value if value in BUILTINS or value in PURE else control_rules.request_of(value)
    if request is not None:
        return BuiltinVariable(request, source=source, guards=_identity(capture, value, source))
    if is_torch_function(value):
        return TorchVariable(value, source=source, guards=_identity(capture, value, source))
    if value.__code__.co_filename == UNCOMPILED and hasattr(value, "__wrapped__"):
        # PyTorch hides what it wraps there from its own compiler.
        _identity(capture, value, source)
        return capture.wrap(value.__wrapped__, AttributeSource(source, "__wrapped__"))
    if value.__code__.co_filename == TENSOR_FILE and hasattr(torch.Tensor, value.__name__):
        return _tensor_method(capture, value, source)
    if isinstance(source.root(), LocalSource | CellSource):
        # A caller often makes its function anew for each call: the same code will do, as defaults
        # and closure are guarded where they are used.
        guards = _identity(capture, value.__code__, AttributeSource(source, "__code__"))
    else:
        guards = _identity(capture, value, source)
    return UserFunctionVariable(value, source=source, guards=guards)


def _tensor_method(capture: Capture, value: Any, source: Source) -> VariableTracker:
    """A method of `torch.Tensor` that is written in Python, such as ``torch.Tensor.__rsub__``."""
    method = BuiltinMethodVariable(
        value, value.__name__, None, capture.wrap(torch.Tensor, capture.reference(torch.Tensor))
    )
    method.guards |= _identity(capture, value, source)
    return method


def _polyfill(capture: Capture, value: Any) -> VariableTracker:
    body = POLYFILLS[value]
    assert isinstance(body, types.FunctionType)
    return UserFunctionVariable(body, source=capture.reference(body))


def _torch_function(capture: Capture, value: Any, source: Source) -> VariableTracker:
    return TorchVariable(value, source=source, guards=_identity(capture, value, source))


def _builtin(capture: Capture, value: types.BuiltinFunctionType, source: Source) -> VariableTracker:
    if value in POLYFILLS:
        _identity(capture, value, source)
        return _polyfill(capture, value)
    if is_torch_function(value):
        return _torch_function(capture, value, source)
    owner = value.__self__
    if owner is None or isinstance(owner, types.ModuleType) or value in BUILTINS or value in PURE:
        return BuiltinVariable(value, source=source, guards=_identity(capture, value, source))
    if isinstance(owner, type):
        cls = capture.wrap(owner, capture.reference(owner))
        _identity(capture, value, source)
        return BuiltinMethodVariable(value, value.__name__, None, cls)
    guards = _guarded(capture, *_type(capture, value, source))
    owner_source = AttributeSource(source, "__self__")
    capture.wrap(value.__name__, AttributeSource(source, "__name__"))
    method = GetAttrVariable(capture.wrap(owner, owner_source), value.__name__)
    method.guards |= guards
    return method


def _descriptor(capture: Capture, value: Any, source: Source) -> VariableTracker:
    """A method found on a class, such as ``torch.Tensor.add`` or ``dict.get``."""
    guards = _identity(capture, value, source)
    cls = capture.wrap(value.__objclass__, capture.reference(value.__objclass__))
    method = BuiltinMethodVariable(value, value.__name__, None, cls)
    method.guards |= guards
    return method


def _method(capture: Capture, value: types.MethodType, source: Source) -> VariableTracker:
    guards = _guarded(capture, *_type(capture, value, source))
    function = capture.wrap(value.__func__, AttributeSource(source, "__func__"))
    owner = capture.wrap(value.__self__, AttributeSource(source, "__self__"))
    if isinstance(owner, OutsideContextVariable):
        return GetAttrVariable(owner, value.__name__)
    method = BoundMethodVariable(function, owner, source)
    method.guards |= guards
    return method


def _partial(capture: Capture, value: functools.partial[Any], source: Source) -> VariableTracker:
    guards = _guarded(capture, *_type(capture, value, source))
    function = capture.wrap(value.func, AttributeSource(source, "func"))
    args = capture.wrap(value.args, AttributeSource(source, "args"))
    keywords = capture.wrap(value.keywords, AttributeSource(source, "keywords"))
    assert isinstance(args, TupleVariable) and isinstance(keywords, DictVariable)
    named = {key.as_constant(): element for key, element in keywords.pairs()}
    return PartialVariable(function, args.realized(), named, source=source, guards=guards)


def _getter(capture: Capture, value: Any, source: Source) -> VariableTracker:
    """An `operator.itemgetter` and its like: how it was made tells what it does."""
    guards = _identity(capture, value, source)
    make, args = value.__reduce__()
    kwargs: dict[str, Any] = {}
    if isinstance(make, functools.partial):
        args, kwargs = make.args, make.keywords
    trackers = [capture.wrap(arg, None) for arg in args]
    named = {name: capture.wrap(arg, None) for name, arg in kwargs.items()}
    body = capture.wrap(GETTERS[type(value)], None)
    return GetterVariable(type(value), body, trackers, named, source=source, guards=guards)


def _cached_function(capture: Capture, value: Any, source: Source) -> VariableTracker:
    guards = _identity(capture, value, source)
    function = capture.wrap(value.__wrapped__, AttributeSource(source, "__wrapped__"))
    return CachedFunctionVariable(value, function, source=source, guards=guards)


def _class(capture: Capture, value: type, source: Source) -> VariableTracker:
    guards = _identity(capture, value, source)
    if value in POLYFILLS:
        return _polyfill(capture, value)
    return ClassVariable(value, source=source, guards=guards)


def _python_module(capture: Capture, value: types.ModuleType, source: Source) -> VariableTracker:
    guards = _identity(capture, value, source)
    return PythonModuleVariable(value, source=source, guards=guards)


# Objects ------------------------------------------------------------------------------------------


def _module(capture: Capture, value: torch.nn.Module, source: Source) -> VariableTracker:
    if type(value).__module__.startswith("torch.jit"):
        unsupported("script-module", "a TorchScript module")
    guards = _guarded(capture, *_type(capture, value, source))
    return ModuleVariable(type(value), value, source=source, guards=guards)


def _object(capture: Capture, value: object, source: Source) -> VariableTracker:
    cls = type(value)
    guards = _guarded(capture, *_type(capture, value, source))
    container: VariableTracker | None = None
    if isinstance(value, dict):
        contents, place = _contents(value, _builtin_base(cls), source)
        guards |= _guarded(capture, *_key_guards(capture, contents, place))
        container = DictVariable(_entries(capture, contents, place), _builtin_base(cls))
    elif isinstance(value, list | tuple):
        kind = ListVariable if isinstance(value, list) else TupleVariable
        contents, place = _contents(value, kind.CLS, source)
        guards |= _guarded(capture, LengthMatch(place, len(contents), user_line=capture.line))
        container = kind(_elements(capture, contents, place))
    return ObjectVariable(cls, value, container, source=source, guards=guards)


def _autocast(capture: Capture, value: torch.autocast, source: Source) -> VariableTracker:
    guards = _guarded(capture, *_type(capture, value, source))
    return context.autocast_of(capture, value, source, guards)


def _outside_context(capture: Capture, value: object, source: Source) -> VariableTracker:
    guards = _guarded(capture, *_type(capture, value, source))
    return OutsideContextVariable(type(value), source=source, guards=guards)


def _array(capture: Capture, value: Any, source: Source) -> VariableTracker:
    guards = _guarded(capture, *_type(capture, value, source))
    return numpy_array.array_of(capture, value, source, guards)


def _weak_reference(capture: Capture, value: Any, source: Source) -> VariableTracker:
    guards = _guarded(capture, *_type(capture, value, source))
    return WeakReferenceVariable(value, source=source, guards=guards)


def _error_on_graph_break(capture: Capture, value: Any, source: Source) -> VariableTracker:
    guards = _identity(capture, value, source)
    return control_rules.ErrorOnGraphBreakVariable(value.error, source=source, guards=guards)


def _contents(value: Any, base: Any, source: Source) -> tuple[Any, Source]:
    """What the container part of an instance holds and where to load it from.

    A class that overrides how its instances are read is asked past its own methods.
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


_BY_TYPE: Final[dict[type, Builder]] = {
    torch.Tensor: _tensor,
    torch.nn.Parameter: _tensor,
    list: _sequence(ListVariable),
    tuple: _sequence(TupleVariable),
    torch.Size: _sequence(SizeVariable),
    deque: _deque,
    dict: _dict,
    OrderedDict: _dict,
    defaultdict: _default_dict,
    types.MappingProxyType: _mapping_proxy,
    set: _set,
    frozenset: _set,
    range: _range,
    slice: _slice,
    types.FunctionType: _function,
    types.BuiltinFunctionType: _builtin,
    types.MethodType: _method,
    types.MethodDescriptorType: _descriptor,
    types.WrapperDescriptorType: _descriptor,
    functools._lru_cache_wrapper: _cached_function,
    type: _class,
    numpy.ndarray: _array,
    weakref.ref: _weak_reference,
    controls.error_on_graph_break: _error_on_graph_break,
    **dict.fromkeys(GETTERS, _getter),
}
