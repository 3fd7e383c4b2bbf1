"""Iterators that come from outside: each element is looked at when the program takes it.

    peek(iterator, k)       the element that it would give after k others, by a copy of it
    advance(iterator, n)    after the graph, it takes the n steps that the program took

So code captured with an iterator of a thousand elements, of which it takes one, serves each of its
calls. Only iterators over sequences are modelled in this way: to copy one takes a moment, and to
step it runs no code of the user's. `zip`, `map` and `filter` have no state but their iterators'
state; `enumerate` counts, so it is advanced itself.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from minitorch2.bytecode.guards import Remaining
from minitorch2.bytecode.guards.sources import PeekSource
from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Capture, Evaluator, Residual
from minitorch2.bytecode.trackers.observed import raise_observed
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable
from minitorch2.bytecode.trackers.python_values.iterator import IteratorVariable, ZipVariable
from minitorch2.bytecode.trackers.python_values.sequence import TupleVariable


class OutsideIterator(IteratorVariable):
    """An iterator over a sequence.

    Args:
        capture: wraps the elements.
        value: the real iterator.
        container: the list that it iterates over; None for a sequence that cannot change.
    """

    def __init__(
        self,
        capture: Capture,
        value: Iterator[Any],
        container: VariableTracker | None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.cls, self.container = type(value), container
        self._capture, self._rest = capture, copy.copy(value)
        self._taken, self._ended = 0, False
        self._driver: OutsideEnumerate | None = None

    def python_type(self) -> type:
        return self.cls

    @property
    def is_untouched(self) -> bool:
        """True if the program has not taken anything yet."""
        return not self._taken and not self._ended and self._driver is None

    def drive(self, driver: OutsideEnumerate) -> None:
        """Take steps through another iterator from now on, which is the one that advances."""
        self._driver = driver

    def next(self, evaluator: Evaluator) -> VariableTracker:
        if self._ended:
            raise_observed(StopIteration)
        self._check_usable()
        self.record_change(evaluator)
        assert self.source is not None
        try:
            element = next(self._rest)
        except StopIteration:
            guard = Remaining(self.source, self._taken, user_line=self._capture.line)
            self.guards |= {self._capture.add_guard(guard)}
            self._ended = True
            raise_observed(StopIteration)
        self._taken += 1
        return self._capture.wrap(element, PeekSource(self.source, self._taken - 1))

    def _check_usable(self) -> None:
        effects = self._capture.side_effects
        if self.container is not None and effects.changes(self.container):
            unsupported("changed-while-iterated", "a list changes while it is iterated over")
        if self._driver is not None and not self._driver.stepping:
            unsupported("iteration", "an iterator is used beside the `enumerate` that is over it")

    def mutation(self, residual: Residual, name: str) -> list[str]:
        if self._driver is not None:
            return []
        return [f"{residual.reference(advance)}({name}, {self._taken + self._ended})"]


class OutsideEnumerate(IteratorVariable):
    """An `enumerate` over iterators over sequences.

    Args:
        count: the number that it gives next.
        iterator: the iterator that it counts.
        stepped: the iterators over sequences that it steps.
    """

    def __init__(
        self,
        count: VariableTracker,
        iterator: IteratorVariable,
        stepped: Sequence[OutsideIterator],
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.count, self.iterator = count, iterator
        self.steps, self.stepping = 0, False
        for each in stepped:
            each.drive(self)

    def python_type(self) -> type:
        return enumerate

    def next(self, evaluator: Evaluator) -> VariableTracker:
        self.record_change(evaluator)
        number = operations.binary(evaluator, "+", self.count, ConstantVariable(self.steps))
        self.steps, self.stepping = self.steps + 1, True
        try:
            return TupleVariable([number, self.iterator.next(evaluator)])
        finally:
            self.stepping = False

    def mutation(self, residual: Residual, name: str) -> list[str]:
        return [f"{residual.reference(advance)}({name}, {self.steps})"]


def leaves(iterator: IteratorVariable) -> Sequence[OutsideIterator] | None:
    """Return the iterators over sequences that an iterator from outside steps.

    None if it steps others, or if the program has used some of them.
    """
    if isinstance(iterator, OutsideIterator) and iterator.is_untouched:
        return [iterator]
    if not isinstance(iterator, ZipVariable) or iterator.source is None:
        return None
    found = [leaves(part) for part in iterator.iterators]
    return None if None in found else [leaf for part in found for leaf in part or ()]


def advance(iterator: Iterator[object], steps: int) -> None:
    """Take steps; one more than there are elements ends the iterator."""
    for _ in islice(iterator, steps):
        pass
