"""A Python function as inlining needs it.

PyTorch 2 paper, section 3.6. The same description serves functions of the outside world, whose
defaults and cells have sources, and functions that the captured code makes itself.
"""

from __future__ import annotations

from types import FunctionType

from minitorch2.bytecode.guards.sources import AttributeSource, ClosureSource, ItemSource, Source
from minitorch2.bytecode.trackers.interfaces import Callee, Capture, Default
from minitorch2.bytecode.trackers.python_values.cell import CellVariable


def callee_of(capture: Capture, function: FunctionType, source: Source | None) -> Callee:
    """Return the callee that a function object of the outside world is."""
    origin = source or capture.reference(function)

    def default(attribute: str, key: object, value: object) -> Default:
        return lambda: capture.wrap(value, ItemSource(AttributeSource(origin, attribute), key))

    defaults = [
        default("__defaults__", i, value) for i, value in enumerate(function.__defaults__ or ())
    ]
    keyword_defaults = {
        name: default("__kwdefaults__", name, value)
        for name, value in (function.__kwdefaults__ or {}).items()
    }
    cells = [
        _outer_cell(capture, function, origin, i) for i in range(len(function.__closure__ or ()))
    ]
    return Callee(
        function.__code__,
        function.__globals__,
        defaults,
        keyword_defaults,
        cells,
        function.__qualname__,
    )


def _outer_cell(
    capture: Capture, function: FunctionType, source: Source, index: int
) -> CellVariable:
    """Return a cell of an existing closure; closures that share a cell share its tracker."""
    assert function.__closure__ is not None
    name, cell = function.__code__.co_freevars[index], function.__closure__[index]
    place = ItemSource(AttributeSource(source, "__closure__"), index)
    made: CellVariable = capture.outer_cell(name, cell, place, ClosureSource(source, index))
    return made
