"""Iterators, as CPython makes them: lazy, consumed by use, one `__next__` at a time.

An iterator made while capturing that lives on behind the graph is rebuilt as one of the same class
over the remaining elements. Iterators from outside are in `outside_iterator`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any

from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.modeled import ModeledVariable
from minitorch2.bytecode.trackers.observed import ObservedError, raise_observed
from minitorch2.bytecode.trackers.python_values.constant import (
    ConstantVariable,
    literal,
    register_literal,
)

if TYPE_CHECKING:
    from minitorch2.bytecode.trackers.python_values.sequence import SequenceVariable


LIST_ITERATOR: type = type(iter([]))


class IteratorVariable(ModeledVariable):
    """Base of iterators: subclasses give `next`."""

    def next(self, evaluator: Evaluator) -> VariableTracker:
        """Return the next element; raise the user's StopIteration at the end."""
        raise NotImplementedError

    def items(self, evaluator: Evaluator) -> list[VariableTracker]:
        elements: list[VariableTracker] = []
        while (element := next_item(evaluator, self)) is not None:
            elements.append(element)
        return elements

    def py___next__(self, evaluator: Evaluator) -> VariableTracker:
        return self.next(evaluator)

    def py___iter__(self, evaluator: Evaluator) -> VariableTracker:
        return self


def step(evaluator: Evaluator, iterator: VariableTracker) -> VariableTracker:
    """``next(iterator)`` of any iterator; raise the user's StopIteration at the end."""
    return iterator.call_method(evaluator, "__next__", [], {})


def next_item(evaluator: Evaluator, iterator: VariableTracker) -> VariableTracker | None:
    """``next(iterator)``; None at the end."""
    try:
        return iterator.call_method(evaluator, "__next__", [], {})
    except ObservedError as error:
        if error.kind is StopIteration:
            return None
        raise


def advance(iterator: Iterator[Any], steps: int) -> Iterator[Any]:
    """Take steps and return the iterator; one more than there are elements ends it."""
    next(islice(iterator, steps, steps), None)
    return iterator


class SequenceIterator(IteratorVariable):
    """An iterator over a list or tuple; elements are looked up when reached: a list may change.

    Args:
        owner: the sequence; None at the end, as CPython forgets it then.
        start: ``iter`` or ``reversed``.
    """

    def __init__(self, owner: SequenceVariable, start: Callable[[Any], Any] = iter) -> None:
        super().__init__()
        self.owner: SequenceVariable | None = owner
        self.start, self.cls = start, type(start(owner.empty))
        self.position = 0 if start is iter else len(owner.elements) - 1

    def python_type(self) -> type:
        return self.cls

    def next(self, evaluator: Evaluator) -> VariableTracker:
        if self.owner is None or not 0 <= self.position < len(self.owner.elements):
            self.owner = None
            raise_observed(StopIteration)
        self.position += 1 if self.start is iter else -1
        return self.owner.element(self.position - 1 if self.start is iter else self.position + 1)

    def py___length_hint__(self, evaluator: Evaluator) -> VariableTracker:
        if self.owner is None:
            return ConstantVariable(0)
        left = len(self.owner.elements) - self.position
        return ConstantVariable(max(0, left if self.start is iter else self.position + 1))

    def reconstruct(self, residual: Residual) -> str:
        if self.owner is None:
            return f"{residual.reference(self.start)}([])"
        # Not `iter`: a derived class may have its own `__iter__`.
        start = residual.reference(self.owner.CLS.__iter__ if self.start is iter else reversed)
        sequence = residual.name_for(self.owner.whole or self.owner)
        return f"{residual.reference(resumed)}({start}, {sequence}, {self.position})"


def resumed(start: Callable[[Any], Any], sequence: Sequence[Any], position: int) -> object:
    """Return an iterator over the sequence that has come to an index.

    A list gets its elements later, as a side effect; an iterator takes no index behind the last.
    """
    iterator, size = start(sequence), len(sequence)
    if isinstance(sequence, list):
        list.extend(sequence, [None] * (position + 1 - size))
    iterator.__setstate__(position)
    if isinstance(sequence, list):
        list.__delitem__(sequence, slice(size, None))
    return iterator


class FixedIterator(IteratorVariable):
    """An iterator over elements that are all known and stay the same.

    Args:
        elements: the elements of the sequence that is iterated over.
        cls: the class of the iterator.
    """

    def __init__(self, elements: Sequence[VariableTracker], cls: type = LIST_ITERATOR) -> None:
        super().__init__()
        self.elements = elements
        self.cls = cls
        self.position = 0

    def python_type(self) -> type:
        return self.cls

    def next(self, evaluator: Evaluator) -> VariableTracker:
        if self.position >= len(self.elements):
            self.elements, self.position = (), 0
            raise_observed(StopIteration)
        self.position += 1
        return self.elements[self.position - 1]

    def py___length_hint__(self, evaluator: Evaluator) -> VariableTracker:
        return ConstantVariable(len(self.elements) - self.position)

    def reconstruct(self, residual: Residual) -> str:
        rest = [residual.name_for(e) for e in self.elements[self.position :]]
        if self.cls is type(iter(())):
            return f"iter(({', '.join(rest)}{',' if len(rest) == 1 else ''}))"
        return f"iter([{', '.join(rest)}])"


class GuardedIterator(FixedIterator):
    """An iterator over a container that must keep its size meanwhile: a set or a deque.

    Args:
        owner: the container.
        elements: its elements now, in the order of iteration.
        present: gives its elements at each step.
        message: the text of CPython's RuntimeError when the size is another.
    """

    def __init__(
        self,
        owner: VariableTracker,
        elements: Sequence[VariableTracker],
        present: Callable[[], Iterable[VariableTracker]],
        message: str,
        cls: type = LIST_ITERATOR,
    ) -> None:
        super().__init__(elements, cls)
        self.owner, self.present, self.message = owner, present, message
        self.before = list(present())

    def next(self, evaluator: Evaluator) -> VariableTracker:
        if self._has_new_size():
            raise_observed(RuntimeError, self.message)
        return super().next(evaluator)

    def _has_new_size(self) -> bool:
        """Return whether elements came or went; others in their place are not supported."""
        now = list(self.present())
        if len(now) == len(self.before) and now != self.before:
            unsupported("changed-while-iterated", "a container changes while it is iterated over")
        return len(now) != len(self.before)

    def reconstruct(self, residual: Residual) -> str:
        self._has_new_size()
        rest = "".join(f"{residual.name_for(e)}, " for e in self.elements[self.position :])
        owner, made = residual.name_for(self.owner), residual.reference(guarded)
        return f"{made}({owner}, {len(self.before)}, {self.message!r}, ({rest}))"


def guarded(
    container: Sized, size: int, message: str, rest: tuple[object, ...]
) -> Iterator[object]:
    """Yield the rest of an iteration over a container, which must keep its size."""
    for element in (*rest, guarded):
        if len(container) != size:
            raise RuntimeError(message)
        if element is not guarded:
            yield element


class ZipVariable(IteratorVariable):
    """``zip(*iterators, strict=strict)``."""

    def __init__(
        self,
        iterators: list[VariableTracker],
        strict: bool,
        pack: Callable[[list[VariableTracker]], VariableTracker],
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.iterators, self.strict, self.pack = iterators, strict, pack

    def python_type(self) -> type:
        return zip

    def next(self, evaluator: Evaluator) -> VariableTracker:
        elements: list[VariableTracker] = []
        if not self.iterators:
            raise_observed(StopIteration)
        for number, iterator in enumerate(self.iterators):
            try:
                elements.append(step(evaluator, iterator))
            except ObservedError as error:
                if error.kind is StopIteration and self.strict:
                    self._check_all_ended(evaluator, number)
                raise
        return self.pack(elements)

    def _check_all_ended(self, evaluator: Evaluator, number: int) -> None:
        """Check that no iterator has more elements than `number`, which ended first."""
        if number > 0:
            before = "argument 1" if number == 1 else f"arguments 1-{number}"
            raise_observed(ValueError, f"zip() argument {number + 1} is shorter than {before}")
        for later, iterator in enumerate(self.iterators[1:], 2):
            if next_item(evaluator, iterator) is not None:
                before = "argument 1" if later == 2 else f"arguments 1-{later - 1}"
                raise_observed(ValueError, f"zip() argument {later} is longer than {before}")

    def rebuild(self, residual: Residual) -> str:
        parts = [residual.name_for(iterator) for iterator in self.iterators]
        return f"zip({', '.join([*parts, f'strict={self.strict}'])})"


class MapVariable(IteratorVariable):
    """``map(function, *iterators)``."""

    def __init__(
        self, function: VariableTracker, iterators: list[VariableTracker], **options: Any
    ) -> None:
        super().__init__(**options)
        self.function, self.iterators = function, iterators

    def python_type(self) -> type:
        return map

    def next(self, evaluator: Evaluator) -> VariableTracker:
        args = [step(evaluator, iterator) for iterator in self.iterators]
        return self.function.call(evaluator, args, {})

    def rebuild(self, residual: Residual) -> str:
        parts = [residual.name_for(part) for part in (self.function, *self.iterators)]
        return f"map({', '.join(parts)})"


class FilterVariable(IteratorVariable):
    """``filter(function, iterator)``; function may be None."""

    def __init__(
        self, function: VariableTracker, iterator: VariableTracker, **options: Any
    ) -> None:
        super().__init__(**options)
        self.function, self.iterator = function, iterator

    def python_type(self) -> type:
        return filter

    def next(self, evaluator: Evaluator) -> VariableTracker:
        while True:
            element = step(evaluator, self.iterator)
            verdict = element
            if not isinstance(self.function, ConstantVariable):
                verdict = self.function.call(evaluator, [element], {})
            if verdict.truth(evaluator):
                return element

    def rebuild(self, residual: Residual) -> str:
        return f"filter({residual.name_for(self.function)}, {residual.name_for(self.iterator)})"


class RepeatVariable(IteratorVariable):
    """``itertools.repeat(element, times)``; times None is for ever."""

    def __init__(self, element: VariableTracker, times: int | None) -> None:
        super().__init__()
        self.element, self.times = element, times

    def python_type(self) -> type:
        return repeat

    def next(self, evaluator: Evaluator) -> VariableTracker:
        if self.times is not None:
            if self.times <= 0:
                raise_observed(StopIteration)
            self.times -= 1
        return self.element

    def reconstruct(self, residual: Residual) -> str:
        times = "" if self.times is None else f", {self.times}"
        return f"{residual.reference(repeat)}({residual.name_for(self.element)}{times})"


class ChainVariable(IteratorVariable):
    """``itertools.chain.from_iterable(iterators)``: each iterable is opened when it is reached."""

    def __init__(
        self,
        iterables: VariableTracker,
        open_: Callable[[Evaluator, VariableTracker], VariableTracker],
    ) -> None:
        super().__init__()
        self.iterables, self.open = iterables, open_
        self.current: VariableTracker | None = None

    def python_type(self) -> type:
        return chain

    def next(self, evaluator: Evaluator) -> VariableTracker:
        while True:
            if self.current is None:
                self.current = self.open(evaluator, step(evaluator, self.iterables))
            if (item := next_item(evaluator, self.current)) is not None:
                return item
            self.current = None

    def reconstruct(self, residual: Residual) -> str:
        made = residual.reference(chain)
        rest = f"{made}.from_iterable({residual.name_for(self.iterables)})"
        if self.current is None:
            return rest
        return f"{made}({residual.name_for(self.current)}, {rest})"


class SliceIterator(IteratorVariable):
    """``itertools.islice(iterator, start, stop, step)``."""

    def __init__(self, iterator: VariableTracker, start: int, stop: int | None, step: int) -> None:
        super().__init__()
        self.iterator, self.skip, self.step = iterator, start, step
        self.left = None if stop is None else max(0, stop - start)

    def python_type(self) -> type:
        return islice

    def next(self, evaluator: Evaluator) -> VariableTracker:
        if self.left is not None and self.left <= 0:
            raise_observed(StopIteration)
        for _ in range(self.skip):
            step(evaluator, self.iterator)
        element = step(evaluator, self.iterator)
        self.skip = self.step - 1
        if self.left is not None:
            self.left -= self.step
        return element

    def reconstruct(self, residual: Residual) -> str:
        stop = None if self.left is None else self.skip + max(0, self.left)
        iterator = residual.name_for(self.iterator)
        return f"{residual.reference(islice)}({iterator}, {self.skip}, {stop}, {self.step})"


register_literal(type(iter([])), lambda v: FixedIterator([literal(x) for x in v]))
