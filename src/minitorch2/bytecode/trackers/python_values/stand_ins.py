"""Real objects that stand in, while capturing, for those that only residual code makes.

A class that the captured code makes must be a class at once: CPython decides about its method
resolution order, its slots and its descriptors. So it is made, of objects like those that the
program puts into it, and `References.stand_ins` maps each of them to its tracker. An object may be
found again as an attribute of the class, or in a function that a library made for it. Then its
tracker takes its place.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, Final

from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.descriptors import MISSING, allocator
from minitorch2.bytecode.trackers.interfaces import References
from minitorch2.bytecode.trackers.known import KnownObjectVariable
from minitorch2.bytecode.trackers.lazy import realize
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable
from minitorch2.bytecode.trackers.python_values.functions import NestedFunctionVariable
from minitorch2.bytecode.trackers.python_values.mapping import DictVariable
from minitorch2.bytecode.trackers.python_values.objects import ObjectVariable
from minitorch2.bytecode.trackers.python_values.sequence import SequenceVariable


class StandIn:
    """An object that stands for a value of which only the identity matters."""


def stand_in(references: References, tracker: VariableTracker) -> Any:
    """Return the real object that stands for a value; the value itself if it is known."""
    tracker = realize(tracker)
    if isinstance(tracker, ConstantVariable | KnownObjectVariable):
        return tracker.value
    for value, known in references.stand_ins.values():
        if known is tracker:
            return value
    make = next((make for kind, make in _MAKERS.items() if isinstance(tracker, kind)), None)
    value = StandIn() if make is None else make(references, tracker)
    if value != ():
        references.stand_for(value, tracker)
    return value


def _function(references: References, tracker: NestedFunctionVariable) -> types.FunctionType:
    """Return a function that is never called; a class only asks whether it is abstract."""
    cells = tuple(types.CellType() for _ in tracker.closure)
    made = types.FunctionType(tracker.code, tracker.namespace, None, None, cells)
    mark = tracker.dict.lookup_name("__isabstractmethod__")
    if mark is not None and mark.is_constant():
        made.__dict__["__isabstractmethod__"] = mark.as_constant()
    return made


def _object(references: References, tracker: ObjectVariable) -> object:
    if tracker.value is not MISSING:
        return tracker.value
    new: Any = allocator(tracker.cls).__new__
    return new(tracker.cls)


def _dict(references: References, tracker: DictVariable) -> object:
    pairs = tracker.pairs()
    return {stand_in(references, key): stand_in(references, value) for key, value in pairs}


_MAKERS: Final[dict[type[VariableTracker], Callable[[References, Any], object]]] = {
    NestedFunctionVariable: _function,
    ObjectVariable: _object,
    SequenceVariable: lambda known, t: t.CLS(stand_in(known, each) for each in t.realized()),
    DictVariable: _dict,
}
"""The functions that make the stand-in of each kind of value."""
