"""From real lists, tuples, dicts and sets to trackers. Elements are wrapped when they are read."""

from __future__ import annotations

import types
from collections import deque
from typing import Any

from minitorch2.bytecode.building.guarding import Builder, constant_guards, guarded, type_guards
from minitorch2.bytecode.guards import DictKeysMatch, Guard, LengthMatch, SetMatch
from minitorch2.bytecode.guards.sources import (
    AttributeSource,
    DictKeysSource,
    DictValuesSource,
    ItemSource,
    Source,
)
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Capture
from minitorch2.bytecode.trackers.lazy import LazyVariable
from minitorch2.bytecode.trackers.python_values.constant import (
    is_constant_key,
    is_constant_value,
    literal,
)
from minitorch2.bytecode.trackers.python_values.deque import DequeVariable
from minitorch2.bytecode.trackers.python_values.dict_views import MappingProxyVariable
from minitorch2.bytecode.trackers.python_values.key_guards import KeyGuards
from minitorch2.bytecode.trackers.python_values.mapping import DefaultDictVariable, DictVariable
from minitorch2.bytecode.trackers.python_values.outside_list import OutsideListVariable
from minitorch2.bytecode.trackers.python_values.range import RangeVariable
from minitorch2.bytecode.trackers.python_values.records import field_names
from minitorch2.bytecode.trackers.python_values.sequence import (
    NamedTupleVariable,
    SliceVariable,
    TupleVariable,
)
from minitorch2.bytecode.trackers.python_values.set import SetVariable


def elements_of(capture: Capture, value: Any, source: Source) -> list[VariableTracker]:
    """Return the elements, each wrapped when it is read."""
    return [
        LazyVariable(capture, element, ItemSource(source, index))
        for index, element in enumerate(value)
    ]


def wrap_list(capture: Capture, value: list[Any], source: Source) -> VariableTracker:
    """Return the tracker of a list; its length is guarded unless it is only appended to."""

    def read() -> list[VariableTracker]:
        capture.add_guard(LengthMatch(source, len(value), user_line=capture.line))
        return elements_of(capture, value, source)

    guards = guarded(capture, *type_guards(capture, value, source))
    return OutsideListVariable(read, source, guards=guards)


def tuple_builder(cls: type[TupleVariable]) -> Builder:
    """Return the builder for tuples of this kind."""

    def builder(capture: Capture, value: Any, source: Source) -> VariableTracker:
        if source.is_fixed:
            return cls([capture.wrap(part, None) for part in value], source=source)
        length = LengthMatch(source, len(value), user_line=capture.line)
        guards = guarded(capture, *type_guards(capture, value, source), length)
        return cls(elements_of(capture, value, source), source=source, guards=guards)

    return builder


def wrap_deque(capture: Capture, value: deque[Any], source: Source) -> VariableTracker:
    """Return the tracker of a deque; its length is guarded."""
    length = LengthMatch(source, len(value), user_line=capture.line)
    guards = guarded(capture, *type_guards(capture, value, source), length)
    elements = elements_of(capture, value, source)
    capture.wrap(value.maxlen, AttributeSource(source, "maxlen"))
    return DequeVariable(elements, value.maxlen, source=source, guards=guards)


def wrap_named_tuple(capture: Capture, value: Any, source: Source) -> VariableTracker:
    """Return the tracker of a named tuple, or of one of `torch.return_types`."""
    guards = guarded(capture, *type_guards(capture, value, source))
    elements = elements_of(capture, value, source)
    cls = type(value)
    return NamedTupleVariable(elements, cls, field_names(cls), source=source, guards=guards)


def entries_of(
    capture: Capture, value: dict[Any, Any], source: Source
) -> list[tuple[VariableTracker, VariableTracker]]:
    """Return the entries of a dict: keys are wrapped at once, values stay lazy."""
    entries: list[tuple[VariableTracker, VariableTracker]] = []
    for index, (key, element) in enumerate(value.items()):
        if is_constant_key(key):
            key_tracker = literal(key)
        else:
            key_tracker = capture.wrap(key, ItemSource(DictKeysSource(source), index))
        place: Source = ItemSource(DictValuesSource(source), index)
        if _has_literal(key):
            place = ItemSource(source, key)
        entries.append((key_tracker, LazyVariable(capture, element, place)))
    return entries


def _has_literal(key: object) -> bool:
    return type(key) in (int, str, bool, bytes, type(None)) or (
        type(key) is tuple and all(_has_literal(part) for part in key)
    )


def key_guards(capture: Capture, value: dict[Any, Any], source: Source) -> list[Guard]:
    """Return the guards that a dict keeps its keys."""
    keys = tuple(value)
    if all(map(is_constant_key, keys)):
        return [DictKeysMatch(source, keys, user_line=capture.line)]
    return [LengthMatch(source, len(keys), user_line=capture.line)]


def _guard_dict(
    capture: Capture, value: dict[Any, Any], source: Source
) -> tuple[KeyGuards | None, frozenset[Guard]]:
    """Return guards on keys as they are read, None if some have no literal; and guards at once."""
    guards = guarded(capture, *type_guards(capture, value, source))
    if all(map(_has_literal, value)):
        return KeyGuards(capture, source, tuple(value)), guards
    return None, guards | guarded(capture, *key_guards(capture, value, source))


def wrap_dict(capture: Capture, value: dict[Any, Any], source: Source) -> VariableTracker:
    """Return the tracker of a dict; a key is guarded when it is read, if it has a literal."""
    keys, guards = _guard_dict(capture, value, source)
    entries = entries_of(capture, value, source)
    return DictVariable(entries, type(value), keys, source=source, guards=guards)


def wrap_default_dict(capture: Capture, value: Any, source: Source) -> VariableTracker:
    """Return the tracker of a defaultdict, with its factory."""
    keys, guards = _guard_dict(capture, value, source)
    factory = capture.wrap(value.default_factory, AttributeSource(source, "default_factory"))
    entries = entries_of(capture, value, source)
    return DefaultDictVariable(entries, factory, key_guards=keys, source=source, guards=guards)


def wrap_mapping_proxy(capture: Capture, value: Any, source: Source) -> VariableTracker:
    """Return the tracker of a mapping proxy, such as a class's ``__dict__``."""
    keys = key_guards(capture, value, source)
    guards = guarded(capture, *type_guards(capture, value, source), *keys)
    owner = DictVariable(entries_of(capture, value, source))
    return MappingProxyVariable(owner, source=source, guards=guards)


def wrap_set(capture: Capture, value: Any, source: Source) -> VariableTracker:
    """Return the tracker of a set or frozenset."""
    if not all(map(is_constant_key, value)):
        return _set_of_objects(capture, value, source)
    elements = SetMatch(source, tuple(value), user_line=capture.line)
    guards = guarded(capture, *type_guards(capture, value, source), elements)
    return SetVariable(map(literal, value), type(value), value, source=source, guards=guards)


_LASTING = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)
"""Objects that are told apart by identity and rarely die."""


def _set_of_objects(capture: Capture, value: Any, source: Source) -> VariableTracker:
    """Return a set: classes, functions and modules are guarded as a whole, others one by one."""
    if all(isinstance(element, _LASTING) or is_constant_value(element) for element in value):
        same: Guard = SetMatch(source, tuple(value), user_line=capture.line)
        places: list[Source] = [capture.reference(element) for element in value]
    else:
        same = LengthMatch(source, len(value), user_line=capture.line)
        places = [ItemSource(DictKeysSource(source), index) for index in range(len(value))]
    guards = guarded(capture, *type_guards(capture, value, source), same)
    elements = map(capture.wrap, value, places)
    return SetVariable(elements, type(value), source=source, guards=guards)


def wrap_range(capture: Capture, value: range, source: Source) -> VariableTracker:
    """Return the tracker of a range: a range is a constant."""
    return RangeVariable(value, source=source, guards=constant_guards(capture, value, source))


def wrap_slice(capture: Capture, value: slice, source: Source) -> VariableTracker:
    """Return the tracker of a slice, with its three parts."""
    guards = guarded(capture, *type_guards(capture, value, source))
    names = ("start", "stop", "step")
    parts = [capture.wrap(getattr(value, n), AttributeSource(source, n)) for n in names]
    return SliceVariable(parts, source=source, guards=guards)
