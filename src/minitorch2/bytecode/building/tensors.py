"""Make trackers of real tensors, and of the values that operators of the graph return."""

from __future__ import annotations

import operator
from dataclasses import replace
from functools import partial
from typing import Any, Final

import torch
from torch.utils.hooks import RemovableHandle

from minitorch2.bytecode.building.guarding import class_guards, guarded, type_guards
from minitorch2.bytecode.guards import Guard, TensorMatch, TensorMetadata, TypeMatch, WrapperMatch
from minitorch2.bytecode.guards.overrides import overrides_functions
from minitorch2.bytecode.guards.sources import AppliedSource, AttributeSource, Source
from minitorch2.bytecode.operators.plain_tensors import as_plain
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Capture
from minitorch2.bytecode.trackers.python_values.records import field_names
from minitorch2.bytecode.trackers.python_values.sequence import (
    ListVariable,
    NamedTupleVariable,
    SizeVariable,
    TupleVariable,
)
from minitorch2.bytecode.trackers.torch_values.context import EnteredAutocast
from minitorch2.bytecode.trackers.torch_values.hooks import HookHandleVariable
from minitorch2.bytecode.trackers.torch_values.symbolic import SymbolicNumberVariable, from_number
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.bytecode.trackers.torch_values.tensor_subclass import (
    TensorSubclassVariable,
    has_own_dispatch,
)
from minitorch2.bytecode.trackers.torch_values.unmodeled_tensor import (
    UnmodeledTensorVariable,
    why_unmodeled,
)
from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.graph.node import Node
from minitorch2.graph.raising import is_marked
from minitorch2.graph.symbol_nodes import is_symbol_node
from minitorch2.graph.wrapper_tensors import (
    GRADIENTS,
    is_wrapper,
    ragged_dimension,
    taken_apart,
    with_parts,
)
from minitorch2.native.torch_internals.modes import DisableTorchFunctionSubclass

TENSOR_TYPES: Final = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def wrap_tensor(capture: Capture, value: torch.Tensor, source: Source) -> VariableTracker:
    """Make a tensor an input of the graph; one that is not modelled can only be passed on."""
    whole = is_wrapper(value) and all(map(torch.is_tensor, taken_apart(value)[0].values()))
    if whole and value.layout in (torch.strided, torch.jagged):
        return wrap_wrapper(capture, value, source)
    if is_subclass(value):
        return wrap_subclass(capture, value, source)
    reason = why_unmodeled(value, TENSOR_TYPES)
    if reason is not None:
        guards = guarded(capture, *type_guards(capture, value, source))
        return UnmodeledTensorVariable(type(value), reason, source=source, guards=guards)
    is_weight = type(value) is not torch.Tensor or capture.is_in_module(source)
    layout = capture.sizes.of_tensor(value, source, is_weight=is_weight)
    metadata = TensorMetadata.of(value, frozenset() if layout is None else layout.dynamic)
    guards = guarded(capture, TensorMatch(source, metadata, user_line=capture.line))

    def make(node: Node, fake: FakeTensor) -> VariableTracker:
        own = frozenset(value.__dict__)
        return TensorVariable(node, fake, type(value), own, source=source, guards=guards)

    return capture.tensor_input(value, source, make, layout)


def is_subclass(value: torch.Tensor) -> bool:
    """Return whether a tensor of a derived class has its data as all tensors have."""
    cls = type(value)
    is_derived = cls not in TENSOR_TYPES and not has_own_dispatch(cls)
    return is_derived and why_unmodeled(value, [cls]) is None


def wrap_subclass(capture: Capture, value: torch.Tensor, source: Source) -> VariableTracker:
    """Return the tracker of a derived class's tensor: the graph has a plain one on its memory."""
    cls = type(value)
    guards = guarded(capture, *type_guards(capture, value, source)) | class_guards(capture, cls)
    data, place, kind = value, source, cls
    if overrides_functions(cls):
        data, kind = as_plain(value), torch.Tensor
        place = AppliedSource(source, capture.reference(as_plain))
    is_weight = isinstance(value, torch.nn.Parameter) or capture.is_in_module(source)
    layout = capture.sizes.of_tensor(data, place, is_weight=is_weight)
    metadata = TensorMetadata.of(data, frozenset() if layout is None else layout.dynamic)
    guards |= guarded(capture, TensorMatch(place, replace(metadata, cls=kind)))
    options: Any = {"value": value, "capture": capture, "source": source, "guards": guards}
    make = partial(TensorSubclassVariable, cls=cls, **options)
    return capture.tensor_input(data, place, make, layout)


def wrap_wrapper(capture: Capture, value: torch.Tensor, source: Source) -> VariableTracker:
    """Make a tensor made of others an input of the graph as it is; its parts are guarded."""
    cls, guards = type(value), guarded(capture, *type_guards(capture, value, source))
    guards |= class_guards(capture, cls)
    is_weight = cls in GRADIENTS  # their contexts hold sizes as numbers
    is_weight |= isinstance(value, torch.nn.Parameter) or capture.is_in_module(source)
    fake, found = fake_wrapper(capture, value, source, is_weight)
    guards |= guarded(capture, *found)
    options: Any = {"value": value, "capture": capture, "source": source, "guards": guards}
    make = partial(TensorSubclassVariable, cls=cls, **options)
    return capture.tensor_input(value, source, make, fake=fake)


def fake_wrapper(
    capture: Capture, value: Any, source: Source, is_weight: bool, ragged: int | None = None
) -> tuple[Any, list[Guard]]:
    """Return the fake of a tensor that may be made of others, and the guards on all of them.

    In the dimension `ragged` a jagged tensor has its rows, one after another.
    """
    layout, dynamic = None, frozenset(range(value.dim()))
    with DisableTorchFunctionSubclass():
        if value.layout is not torch.jagged:
            layout = capture.sizes.of_tensor(value, source, is_weight=is_weight, ragged=ragged)
            dynamic = frozenset() if layout is None else layout.dynamic
        metadata = TensorMetadata.of(value, dynamic)
    if not is_wrapper(value):
        return capture.fake_of(value, layout), [TensorMatch(source, metadata)]
    parts, context = taken_apart(value)
    guards: list[Guard] = [WrapperMatch(source, tuple(parts), context, metadata)]

    def part_of(name: str, part: torch.Tensor) -> Any:
        place = AttributeSource(source, name)
        fake, found = fake_wrapper(capture, part, place, is_weight, ragged_dimension(value, name))
        guards.extend(found)
        return fake

    fake: Any = with_parts(value, part_of, layout)
    return fake.requires_grad_(value.requires_grad), guards


def wrap_varying_number(capture: Capture, value: object, source: Source) -> VariableTracker | None:
    """Return an int or float that changes from call to call as a symbol; None for a constant."""
    if type(value) not in (int, float) or source.is_fixed:
        return None
    where = {"varies": source in capture.frame.varying, "in_module": capture.is_in_module(source)}
    number = capture.sizes.of_number(value, source, **where)  # type: ignore[arg-type]
    if number is None:
        return None
    guards = guarded(capture, TypeMatch(source, type(value), user_line=capture.line))
    return SymbolicNumberVariable(number, source=source, guards=guards)


def from_graph(capture: Capture, node: Node, value: Any) -> VariableTracker:
    """Return the tracker of a node's value: tensors, containers of tensors, or known metadata."""
    capture.bind_symbols(node)
    if is_wrapper(value):
        return TensorSubclassVariable(node, value, type(value), capture=capture)
    if isinstance(value, torch.Tensor):
        return TensorVariable(node, value)  # type: ignore[arg-type]
    if isinstance(value, tuple | list) and not isinstance(value, torch.Size):
        elements = [_element(capture, node, i, part) for i, part in enumerate(value)]
        return _sequence_like(value, elements)
    if isinstance(value, torch.autocast):
        return EnteredAutocast(node)
    if isinstance(value, RemovableHandle):
        return HookHandleVariable(node)
    if isinstance(value, str | bytes):
        unsupported("format", "the text of a tensor is not known while capturing")
    if not is_marked(node) and not is_symbol_node(node):
        capture.graph.erase(node)
    if isinstance(value, torch.Size):
        return SizeVariable([from_number(size) for size in value])
    return from_number(value)


def _element(capture: Capture, node: Node, index: int, value: object) -> VariableTracker:
    element = capture.graph.call_function(operator.getitem, (node, index))
    element.meta.update(val=value, source=node.meta.get("source"))
    return from_graph(capture, element, value)


def _sequence_like(value: Any, elements: list[VariableTracker]) -> VariableTracker:
    fields = field_names(type(value))
    if fields:
        return NamedTupleVariable(elements, type(value), fields)
    return ListVariable(elements) if isinstance(value, list) else TupleVariable(elements)
