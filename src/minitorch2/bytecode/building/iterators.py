"""From real iterators to trackers. The parts of an iterator are read from its ``__reduce__``."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import count
from typing import Any, Final

from minitorch2.bytecode.building.guarding import guarded, type_guards
from minitorch2.bytecode.guards import Guard, LengthMatch
from minitorch2.bytecode.guards.sources import AppliedSource, ItemSource, ReducedSource, Source
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Capture
from minitorch2.bytecode.trackers.python_values.counting import CountVariable, EnumerateVariable
from minitorch2.bytecode.trackers.python_values.iterator import (
    FilterVariable,
    MapVariable,
    ZipVariable,
)
from minitorch2.bytecode.trackers.python_values.objects import ObjectVariable
from minitorch2.bytecode.trackers.python_values.outside_iterator import (
    OutsideIterator,
    leaves,
)
from minitorch2.bytecode.trackers.python_values.sequence import TupleVariable

_MADE: Final[tuple[Any, ...]] = ([], (), range(0), "a", "é", {}, {}.values(), {}.items())
OVER_CONTAINERS: Final = (*(type(iter(each)) for each in _MADE), type(reversed([])))
"""Iterators that are copied at once, without code of the user's."""


def wrap_iterator(capture: Capture, value: Iterator[Any], source: Source) -> VariableTracker:
    """Return the tracker of an iterator over a list, tuple, range, string or dict."""
    guards = guarded(capture, *type_guards(capture, value, source))
    iterated, container = gc.get_referents(value), None  # nothing at the end
    if iterated and isinstance(iterated[0], list | dict):
        place = AppliedSource(source, capture.reference(gc.get_referents))
        container = capture.wrap(iterated[0], ItemSource(place, 0))
    try:
        return OutsideIterator(capture, value, container, source=source, guards=guards)
    except LookupError:  # its dict has changed
        return ObjectVariable(type(value), value, capture=capture, source=source, guards=guards)


def wrap_count(capture: Capture, value: Iterator[Any], source: Source) -> VariableTracker:
    """Return the tracker of an `itertools.count`."""
    guards = guarded(capture, *type_guards(capture, value, source))
    place = AppliedSource(source, capture.reference(count_parts))
    try:
        number, step = count_parts(value)
    except ValueError:  # it counts something else than integers
        return ObjectVariable(count, value, capture=capture, source=source, guards=guards)
    parts = [capture.wrap(n, ItemSource(place, i)) for i, n in enumerate((number, step))]
    return CountVariable(*parts, source=source, guards=guards)


def count_parts(iterator: Iterator[Any]) -> tuple[int, int]:
    """Return the next number and the step of a `count`, from its text: copies are deprecated."""
    number, step = (*map(int, repr(iterator)[len("count(") : -1].split(", ")), 1)[:2]
    return number, step


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
    iterator = capture.wrap(inner, _part(source, 0))
    if (stepped := leaves(iterator)) is None:
        return ObjectVariable(enumerate, value, capture=capture, source=source, guards=guards)
    number = capture.wrap(number, _part(source, 1))
    return EnumerateVariable(number, iterator, stepped, source=source, guards=guards)


def _wrap_parts(
    capture: Capture, value: Iterator[Any], source: Source, first: int
) -> tuple[frozenset[Guard], list[VariableTracker]]:
    """Return guards on how an iterator was made, and the iterators that it was made of."""
    reduced, parts = _reduced(value), _parts(value)
    shape = (
        LengthMatch(ReducedSource(source), len(reduced), user_line=capture.line),
        LengthMatch(ItemSource(ReducedSource(source), 1), len(parts), user_line=capture.line),
    )
    guards = guarded(capture, *type_guards(capture, value, source), *shape)
    places = range(first, len(parts))
    return guards, [capture.wrap(parts[i], _part(source, i)) for i in places]


def _reduced(value: Iterator[Any]) -> tuple[Any, ...]:
    reduced: Any = value.__reduce__()
    return tuple(reduced)


def _parts(value: Iterator[Any]) -> tuple[Any, ...]:
    return tuple(_reduced(value)[1])


def _part(source: Source, index: int) -> Source:
    return ItemSource(ItemSource(ReducedSource(source), 1), index)
