"""From real values to trackers: the choice of the tracker that models a value, with its guards.

`build` wraps a value of the outside world; `from_graph` wraps the result of an operation of the
graph. PyTorch 2 paper, section 3.4: arguments are wrapped when the frame starts, everything else
when it is first accessed.
"""

from __future__ import annotations

import contextvars
import functools
import itertools
import threading
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Final

import torch

from minitorch2.bytecode.building.callables import (
    wrap_accessor,
    wrap_attribute,
    wrap_builtin,
    wrap_cached_function,
    wrap_cell,
    wrap_class,
    wrap_custom_operator,
    wrap_descriptor,
    wrap_function,
    wrap_getter,
    wrap_method,
    wrap_partial,
    wrap_python_module,
    wrap_torch_function,
)
from minitorch2.bytecode.building.containers import (
    tuple_builder,
    wrap_default_dict,
    wrap_deque,
    wrap_dict,
    wrap_list,
    wrap_mapping_proxy,
    wrap_named_tuple,
    wrap_range,
    wrap_set,
    wrap_slice,
)
from minitorch2.bytecode.building.guarding import Builder, constant_guards, identity_guards
from minitorch2.bytecode.building.iterators import (
    OVER_CONTAINERS,
    wrap_count,
    wrap_enumerate,
    wrap_filter,
    wrap_iterator,
    wrap_map,
    wrap_zip,
)
from minitorch2.bytecode.building.objects import (
    wrap_autocast,
    wrap_context_variable,
    wrap_device_mode,
    wrap_error_on_graph_break,
    wrap_generator,
    wrap_module,
    wrap_object,
    wrap_outside_context,
    wrap_overrides_region,
    wrap_profiled,
    wrap_thread_local,
    wrap_token,
    wrap_weak_proxy,
    wrap_weak_reference,
)
from minitorch2.bytecode.building.tensors import wrap_tensor
from minitorch2.bytecode.guards.overrides import OverridesRegion
from minitorch2.bytecode.guards.sources import Source
from minitorch2.bytecode.polyfills import GETTERS
from minitorch2.bytecode.trackers import control_rules
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.descriptors import is_of_trusted
from minitorch2.bytecode.trackers.interfaces import Capture
from minitorch2.bytecode.trackers.python_values import (  # noqa: F401 - they register rules
    builtin_rules,
    constructors,
    context_variables,
    copies,
    library_rules,
    made_class,
    made_descriptors,
    made_records,
    text_formats,
    warning_rules,
    weak_reference,
)
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable, is_constant_value
from minitorch2.bytecode.trackers.python_values.records import is_record
from minitorch2.bytecode.trackers.python_values.sequence import SizeVariable, TupleVariable
from minitorch2.bytecode.trackers.torch_values import (  # noqa: F401 - they register rules
    checkpoint_rules,
    context,
    custom_function_rules,
    engine_rules,
    forward_mode,
    functional_module,
    higher_order_rules,
    hooks,
    outside_context,
    override_rules,
    storages,
    tensor_constructors,
    transform_rules,
)
from minitorch2.bytecode.trackers.torch_values.outside_context import OUTSIDE_CONTEXTS
from minitorch2.bytecode.trackers.torch_values.torch_function import is_torch_function
from minitorch2.marks import controls
from minitorch2.native.cpython.library import CachedFunction
from minitorch2.native.torch_internals.modes import DeviceContext
from minitorch2.native.torch_internals.operators import CustomOpDef


def build(capture: Capture, value: object, source: Source) -> VariableTracker:
    """Return the tracker of a value that `source` loads, with the guards it relies on."""
    if is_constant_value(value):
        return ConstantVariable(
            value, source=source, guards=constant_guards(capture, value, source)
        )
    builder = BUILDERS.get(type(value)) or _by_class(value)
    mark = control_rules.mark_of(value)
    if mark is None:
        return builder(capture, value, source)
    identity_guards(capture, value, source)
    return control_rules.MarkedVariable(value, mark, builder(capture, value, source))


def _by_class(value: object) -> Builder:
    """Return the builder for a value whose exact class has none."""
    for cls, builder in BUILDERS_OF_SUBCLASSES.items():
        if isinstance(value, cls):
            return builder
    for holds, builder in BUILDERS_BY_QUESTION.items():
        if holds(value):
            return builder
    if type(value) is OrderedDict and not vars(value):
        return wrap_dict
    if isinstance(value, tuple) and is_record(type(value)):
        return wrap_named_tuple
    if is_of_trusted(type(value)) and is_torch_function(value):
        return wrap_torch_function
    return wrap_object


BUILDERS_OF_SUBCLASSES: Final[dict[type, Builder]] = {
    torch.Tensor: wrap_tensor,
    torch.nn.Module: wrap_module,
    type: wrap_class,
    types.ModuleType: wrap_python_module,
    functools.partial: wrap_partial,
    torch.autocast: wrap_autocast,
    threading.local: wrap_thread_local,
}
"""The builder for a class and all that derive from it; extensions register theirs."""

BUILDERS_BY_QUESTION: Final[dict[Callable[[object], bool], Builder]] = {}
"""The builders that extensions have registered for values of which something holds."""

BUILDERS: Final[dict[type, Builder]] = {
    torch.Tensor: wrap_tensor,
    torch.nn.Parameter: wrap_tensor,
    list: wrap_list,
    tuple: tuple_builder(TupleVariable),
    torch.Size: tuple_builder(SizeVariable),
    deque: wrap_deque,
    dict: wrap_dict,
    defaultdict: wrap_default_dict,
    types.MappingProxyType: wrap_mapping_proxy,
    set: wrap_set,
    frozenset: wrap_set,
    range: wrap_range,
    slice: wrap_slice,
    types.FunctionType: wrap_function,
    types.BuiltinFunctionType: wrap_builtin,
    types.MethodType: wrap_method,
    types.MethodDescriptorType: wrap_descriptor,
    types.WrapperDescriptorType: wrap_descriptor,
    CachedFunction: wrap_cached_function,
    types.CellType: wrap_cell,
    contextvars.ContextVar: wrap_context_variable,
    contextvars.Token: wrap_token,
    types.GetSetDescriptorType: wrap_attribute,
    types.MethodWrapperType: wrap_accessor,
    DeviceContext: wrap_device_mode,
    torch.Generator: wrap_generator,
    OverridesRegion: wrap_overrides_region,
    type: wrap_class,
    CustomOpDef: wrap_custom_operator,
    **dict.fromkeys((weakref.ref, weakref.WeakMethod, weakref.KeyedRef), wrap_weak_reference),
    **dict.fromkeys((weakref.ProxyType, weakref.CallableProxyType), wrap_weak_proxy),
    controls.error_on_graph_break: wrap_error_on_graph_break,
    **dict.fromkeys(OUTSIDE_CONTEXTS, wrap_outside_context),
    torch.autograd.profiler.record_function: wrap_profiled,
    **dict.fromkeys(GETTERS, wrap_getter),
    **dict.fromkeys(OVER_CONTAINERS, wrap_iterator),
    itertools.count: wrap_count,
    zip: wrap_zip,
    map: wrap_map,
    filter: wrap_filter,
    enumerate: wrap_enumerate,
}
"""The builder for values of exactly this class; extensions register theirs."""
