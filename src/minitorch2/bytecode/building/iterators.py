"""From real iterators to trackers. The parts of an iterator are read from its ``__reduce__``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from minitorch2.bytecode.building.guarding import guarded, type_guards
from minitorch2.bytecode.guards import Guard, LengthMatch
from minitorch2.bytecode.guards.sources import ItemSource, ReducedSource, Source
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Capture
from minitorch2.bytecode.trackers.python_values.iterator import (
    FilterVariable,
    IteratorVariable,
    MapVariable,
    UserIterator,
    ZipVariable,
)
from minitorch2.bytecode.trackers.python_values.objects import ObjectVariable
from minitorch2.bytecode.trackers.python_values.outside_iterator import (
    OutsideEnumerate,
    OutsideIterator,
    leaves,
)
from minitorch2.bytecode.trackers.python_values.sequence import TupleVariable

OVER_SEQUENCES = tuple(
    type(iterator)
    for iterator in (iter([]), iter(()), iter(range(0)), iter("a"), iter("é"), reversed([]))
)
"""Iterators that are copied in constant time."""


def wrap_sequence_iterator(
    capture: Capture, value: Iterator[Any], source: Source
) -> VariableTracker:
    """Return the tracker of an iterator over a list, a tuple, a range or a string."""
    guards = guarded(capture, *type_guards(capture, value, source))
    iterated, container = _parts(value)[0], None
    if isinstance(iterated, list):
        container = capture.wrap(iterated, _part(source, 0))
    return OutsideIterator(capture, value, container, source=source, guards=guards)


def wrap_zip(capture: Capture, value: Iterator[Any], source: Source) -> VariableTracker:
    """Return the tracker of a `zip`, strict or not."""
    strict = len(_reduced(value)) > 2
    guards, iterators = _wrap_parts(capture, value, source, 0)
    return ZipVariable(iterators, strict, TupleVariable, source=source, guards=guards)


def wrap_map(capture: Capture, value: Iterator[Any], source: Source) -> VariableTracker:
    """Return the tracker of a `map`."""
    guards, iterators = _wrap_parts(capture, value, source, 1)
    function = capture.wrap(_parts(value)[0], _part(source, 0))
    return MapVariable(function, iterators, source=source, guards=guards)


def wrap_filter(capture: Capture, value: Iterator[Any], source: Source) -> VariableTracker:
    """Return the tracker of a `filter`."""
    guards, (iterator,) = _wrap_parts(capture, value, source, 1)
    function = capture.wrap(_parts(value)[0], _part(source, 0))
    return FilterVariable(function, iterator, source=source, guards=guards)


def wrap_enumerate(capture: Capture, value: Iterator[Any], source: Source) -> VariableTracker:
    """Return the tracker of an `enumerate`."""
    guards = guarded(capture, *type_guards(capture, value, source))
    inner, number = _parts(value)
    iterator = _iterator(capture, inner, _part(source, 0))
    if (stepped := leaves(iterator)) is None:
        return ObjectVariable(enumerate, value, capture=capture, source=source, guards=guards)
    count = capture.wrap(number, _part(source, 1))
    return OutsideEnumerate(count, iterator, stepped, source=source, guards=guards)


def _wrap_parts(
    capture: Capture, value: Iterator[Any], source: Source, first: int
) -> tuple[frozenset[Guard], list[IteratorVariable]]:
    """Return guards on how an iterator was made, and the iterators that it was made of."""
    reduced, parts = _reduced(value), _parts(value)
    shape = (
        LengthMatch(ReducedSource(source), len(reduced), user_line=capture.line),
        LengthMatch(ItemSource(ReducedSource(source), 1), len(parts), user_line=capture.line),
    )
    guards = guarded(capture, *type_guards(capture, value, source), *shape)
    places = range(first, len(parts))
    return guards, [_iterator(capture, parts[i], _part(source, i)) for i in places]


def _iterator(capture: Capture, value: Any, source: Source) -> IteratorVariable:
    tracker = capture.wrap(value, source)
    return tracker if isinstance(tracker, IteratorVariable) else UserIterator(tracker)


def _reduced(value: Iterator[Any]) -> tuple[Any, ...]:
    reduced: Any = value.__reduce__()
    return tuple(reduced)


def _parts(value: Iterator[Any]) -> tuple[Any, ...]:
    return tuple(_reduced(value)[1])


def _part(source: Source, index: int) -> Source:
    return ItemSource(ItemSource(ReducedSource(source), 1), index)
