"""Which objects that captured code has made are alive: those that something alive refers to.

CPython drops an object with the last reference to it, which capture does not count. Here an object
is known to be alive if it can be reached from the variables of the frames that are evaluated, or
from a place outside that the captured code writes to. Any other may be dead or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from minitorch2.bytecode.trackers.base import VariableTracker

if TYPE_CHECKING:
    from minitorch2.bytecode.evaluator import Evaluator


def is_held(evaluator: Evaluator | None, wanted: VariableTracker) -> bool:
    """Return whether a value is known to be alive."""
    if wanted.source is not None:
        return True
    assert evaluator is not None, "references are made by code that is evaluated"
    effects, seen = evaluator.capture.side_effects, set[int]()
    found = [*_variables(evaluator), *effects.values_outside()]
    while found:
        tracker = found.pop()
        if tracker is wanted:
            return True
        if id(tracker) not in seen:
            seen.add(id(tracker))
            found += tracker.refers_to()
            parts = effects.pending_attributes(tracker).values()
            found += [part for part in parts if isinstance(part, VariableTracker)]
    return False


def _variables(evaluator: Evaluator | None) -> Iterator[VariableTracker]:
    """Yield what the frames that are evaluated hold."""
    while evaluator is not None:
        yield from evaluator.stack
        yield from evaluator.locals.values()
        yield from evaluator.cells.values()
        yield from evaluator.handled
        if evaluator.result is not None:
            yield evaluator.result
        evaluator = evaluator.parent
