"""Lazy trackers: elements of containers that the program has not read yet.

A list or dict from outside may hold hundreds of values of which the program uses three. Elements
stay lazy inside their container, and become trackers, with guards, when they are taken out. PyTorch
2 paper, section 3.4: "new symbolic representations for these constructs are added lazily".
"""

from __future__ import annotations

from collections.abc import Iterable

from minitorch2.bytecode.guards.sources import Source
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Capture


class LazyVariable(VariableTracker):
    """A value that `source` loads; `realize` makes the tracker that models it."""

    def __init__(self, capture: Capture, value: object, source: Source) -> None:
        super().__init__(source=source)
        self.capture = capture
        self.value = value
        self.load_from = source

    def realize(self) -> VariableTracker:
        """Return the value's tracker; from now on the captured code is guarded on it."""
        return self.capture.wrap(self.value, self.load_from)


def realize(tracker: VariableTracker) -> VariableTracker:
    """Return the tracker itself, or the one that a lazy tracker becomes."""
    return tracker.realize() if isinstance(tracker, LazyVariable) else tracker


def realize_all(trackers: Iterable[VariableTracker]) -> list[VariableTracker]:
    """Return all elements as trackers that are not lazy."""
    return [realize(tracker) for tracker in trackers]
