"""Weak references: calling one gives its object, or None when that has died."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Iterator
from typing import Any

from minitorch2.bytecode.frames.lifetimes import SEES_DEATH
from minitorch2.bytecode.guards.sources import CallSource
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import MISSING
from minitorch2.bytecode.trackers.interfaces import Capture, Evaluator, Residual
from minitorch2.bytecode.trackers.python_values.classes import constructs


class WeakReferenceVariable(VariableTracker):
    """A `weakref.ref`, made here of `target`, or from outside (then `value` is the real one)."""

    def __init__(
        self,
        value: Any = MISSING,
        target: VariableTracker | None = None,
        capture: Capture | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.value, self.target, self.capture = value, target, capture

    def python_type(self) -> type:
        return weakref.ref

    def hash_key(self) -> Hashable:
        return unsupported("hash", "the hash of a weak reference is that of its object")

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        if self.target is not None:
            if not is_held(evaluator, self.target):
                unsupported(SEES_DEATH, "a weak reference to an object that may be dead")
            return self.target
        assert self.source is not None
        return evaluator.capture.wrap(self.value(), CallSource(self.source))

    def refers_to(self) -> list[VariableTracker]:
        return []

    def rebuild(self, residual: Residual) -> str:
        assert self.target is not None
        assert self.capture is not None
        if not is_held(self.capture.evaluator, self.target):
            unsupported(SEES_DEATH, "a weak reference to an object that may be dead")
        return f"{residual.reference(weakref.ref)}({residual.name_for(self.target)})"


@constructs(weakref.ref)
def make_weak_reference(
    evaluator: Evaluator, target: VariableTracker, callback: VariableTracker | None = None
) -> VariableTracker:
    """``weakref.ref(target)``"""
    if callback is not None and not (callback.is_constant() and callback.as_constant() is None):
        unsupported(SEES_DEATH, "a weak reference with a callback")
    evaluator.capture.sees_death |= target.source is None
    return WeakReferenceVariable(target=target, capture=evaluator.capture)


# Lifetimes ----------------------------------------------------------------------------------------

# CPython drops an object with the last reference to it, and capture does not count references. An
# object is known to be alive if it can be reached from the variables of the frames that are
# evaluated, or from a place outside that the captured code writes to. Any other may be dead or not.


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
