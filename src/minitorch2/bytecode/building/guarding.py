"""The guards that wrapping a value adds."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

from minitorch2.bytecode.guards import Guard, TypeMatch, constant_match, id_match
from minitorch2.bytecode.guards.class_version import ClassMatch, kind_of
from minitorch2.bytecode.guards.sources import Source
from minitorch2.bytecode.guards.values import hold
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.descriptors import is_of_trusted
from minitorch2.bytecode.trackers.interfaces import Capture

Builder = Callable[["Capture", Any, Source], VariableTracker]


def guarded(capture: Capture, *guards: Guard) -> frozenset[Guard]:
    """Add guards to the capture; the set of them, for the tracker."""
    return frozenset(capture.add_guard(guard) for guard in guards)


def constant_guards(capture: Capture, value: object, source: Source) -> frozenset[Guard]:
    """Return the guard that a value stays equal, unless its source cannot change."""
    if source.is_fixed:
        return frozenset()
    if isinstance(value, decimal.Decimal):  # 1.0 and 1.00 are equal, but print otherwise
        return guarded(capture, id_match(source, value, capture.line))
    return guarded(capture, constant_match(source, value, capture.line))


def identity_guards(capture: Capture, value: object, source: Source) -> frozenset[Guard]:
    """Return the guard that the very same object is found again, unless that cannot change."""
    if source.is_fixed:
        return frozenset()
    return guarded(capture, id_match(source, value, capture.line))


def class_guards(capture: Capture, cls: type) -> frozenset[Guard]:
    """Add guards on the special methods of a class of the program's, and of its metaclass."""
    classes = [each for each in (cls, type(cls)) if not is_of_trusted(each)]
    return guarded(capture, *(ClassMatch(hold(each), kind_of(each)) for each in classes))


def type_guards(capture: Capture, value: object, source: Source) -> list[Guard]:
    """Return the guard that the class stays the same, unless the source cannot change."""
    if source.is_fixed:
        return []
    return [TypeMatch(source, type(value), user_line=capture.line)]


def by_identity(tracker: Callable[..., VariableTracker]) -> Builder:
    """Return the rule for objects each of which is known as itself: `tracker` stands for it."""

    def wrap(capture: Capture, value: Any, source: Source) -> VariableTracker:
        return tracker(value, source=source, guards=identity_guards(capture, value, source))

    return wrap


def by_class(tracker: Callable[..., VariableTracker]) -> Builder:
    """Return the rule for objects of which the class is guarded at once, and the rest when read."""

    def wrap(capture: Capture, value: Any, source: Source) -> VariableTracker:
        guards = guarded(capture, *type_guards(capture, value, source))
        return tracker(capture, value, source=source, guards=guards)

    return wrap
