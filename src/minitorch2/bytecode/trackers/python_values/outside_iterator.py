"""Iterators that come from outside: each element is looked at when the program takes it.

    peek(iterator, k)       the element that it would give after k others, by a copy of it
    advance(iterator, n)    after the graph, it takes the n steps that the program took

So code captured with an iterator of a thousand elements, of which it takes one, serves each of its
calls. Only iterators over sequences and dicts are modelled in this way: to copy one takes a moment,
and to step it runs no code of the user's. `zip`, `map` and `filter` have no state but their
iterators' state; `count` and `enumerate` count, so they are advanced themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from minitorch2.bytecode.guards import Remaining
from minitorch2.bytecode.guards.sources import PeekSource, rest_of
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Capture, Evaluator, Residual
from minitorch2.bytecode.trackers.observed import raise_observed
from minitorch2.bytecode.trackers.python_values.iterator import (
    IteratorVariable,
    ZipVariable,
    advance,
)

if TYPE_CHECKING:
    from minitorch2.bytecode.trackers.python_values.counting import EnumerateVariable


class OutsideIterator(IteratorVariable):
    """An iterator over a sequence or a dict.

    Args:
        capture: wraps the elements.
        value: the real iterator.
        container: the list or dict that it iterates over; None for what cannot change.
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
        self._capture, self._rest = capture, rest_of(value)
        self._taken, self._ended = 0, False
        self._driver: EnumerateVariable | None = None

    def python_type(self) -> type:
        return self.cls

    @property
    def is_untouched(self) -> bool:
        """True if the program has not taken anything yet."""
        return not self._taken and not self._ended and self._driver is None

    def drive(self, driver: EnumerateVariable) -> None:
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
            unsupported("changed-while-iterated", "a container changes while it is iterated over")
        if self._driver is not None and not self._driver.stepping:
            unsupported("iteration", "an iterator is used beside the `enumerate` that is over it")

    def mutation(self, residual: Residual, name: str) -> list[str]:
        if self._driver is not None:
            return []
        return [f"{residual.reference(advance)}({name}, {self._taken + self._ended})"]


def leaves(iterator: VariableTracker) -> Sequence[OutsideIterator] | None:
    """Return the iterators over sequences that an iterator from outside steps.

    None if it steps others, or if the program has used some of them.
    """
    if isinstance(iterator, OutsideIterator) and iterator.is_untouched:
        return [iterator]
    if not isinstance(iterator, ZipVariable) or iterator.source is None:
        return None
    found = [leaves(part) for part in iterator.iterators]
    return None if None in found else [leaf for part in found for leaf in part or ()]
