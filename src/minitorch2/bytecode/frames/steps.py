"""Steps of compiled generators and coroutines between their segments.

A segment is the code from one suspension to the next; it is captured as a function. A segment that
ends by a suspension returns a step: the value for the caller, and the way to go on::

    step ::= Yielded(value, resume, throw)         a `yield`: the caller gets the value
          |  Delegated(iterator, resume, throw)    a `yield from` or `await`: the iterator's steps

`drive` is a generator that makes the steps. ``resume(sent)`` runs the next segment;
``throw(error)`` runs it from the handler of the suspended ``try``, and is None where there is none.
PEP 342, 380, 492, 525.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import AsyncGeneratorType, CodeType, FunctionType
from typing import Any

from minitorch2.bytecode.frames.signature import taking_all_positionally
from minitorch2.native.cpython.suspendable import SUSPENDABLE

Capturing = Callable[[], AbstractContextManager[object]]
"""Makes the context in which functions that are called are captured."""

Resume = Callable[[Any], Any]


@dataclass(slots=True)
class Yielded:
    """A `yield`.

    Attributes:
        value: the value that the caller gets.
        resume: takes the sent value; gives the next step, or the function's result.
        throw: takes an exception; None if no handler is there.
    """

    value: Any
    resume: Resume
    throw: Resume | None = None


@dataclass(slots=True)
class Delegated:
    """A `yield from` or an `await`.

    Attributes:
        iterator: makes the steps until it ends.
        resume: takes the value that it ends with.
        throw: takes the exception that it raises; None if no handler is there.
    """

    iterator: Any
    resume: Resume
    throw: Resume | None = None


class Steps(Generator[Any, Any, Any]):
    """An iterator each step of which is made in a context.

    Args:
        inner: a generator, a coroutine, or an iterator.
        capturing: makes the context.
    """

    def __init__(self, inner: Any, capturing: Capturing) -> None:
        self._inner = inner
        self._capturing = capturing

    def send(self, value: Any) -> Any:
        """Make the next step."""
        with self._capturing():
            if value is None and hasattr(type(self._inner), "__next__"):
                return next(self._inner)
            return self._inner.send(value)

    def throw(self, *error: Any) -> Any:
        """Make the next step, which begins with an exception."""
        if not hasattr(self._inner, "throw"):
            return super().throw(*error)
        with self._capturing():
            return self._inner.throw(*error)

    def close(self) -> None:
        """Make the last step."""
        close = getattr(self._inner, "close", None)
        if close is not None:
            with self._capturing():
                close()


class After(Steps):
    """An iterator one step of which was made already.

    Args:
        first: the value that this step gave.
    """

    def __init__(self, first: Any, inner: Any, capturing: Capturing) -> None:
        super().__init__(inner, capturing)
        self._first = [first]

    def send(self, value: Any) -> Any:
        """Make the next step."""
        return self._first.pop() if self._first else super().send(value)


def drive(
    step: Any, capturing: Capturing, kinds: Collection[type] = (Yielded, Delegated)
) -> Generator[Any, Any, Any]:
    """Make the steps of a generator or coroutine, from a step to its end.

    Args:
        step: the first step; anything else is the function's result.
        capturing: makes the context of steps that are not captured themselves.
        kinds: the steps that are made; one of another kind is the result.
    """
    while type(step) in kinds:
        error, sent = None, None
        try:
            if type(step) is Yielded:
                sent = yield step.value
            else:
                sent = yield from Steps(step.iterator, capturing)
        except BaseException as caught:
            if step.throw is None:
                raise
            error = caught
        # Not in the `except` clause: the segment handles the exception itself.
        step = step.resume(sent) if error is None else step.throw(error)
    return step


awaited = types.coroutine(drive)
"""`drive` for coroutines: what it gives can be awaited."""


def until_yield(step: Any, capturing: Capturing) -> Any:
    """Make the steps of an asynchronous generator to its next `Yielded`, or to its end (None)."""
    return awaited(step, capturing, (Delegated,))


def step_of(made: Any) -> Any:
    """Return the step that goes on with a generator or coroutine that Python runs."""
    if isinstance(made, AsyncGeneratorType):
        return _next_of(made.__anext__(), made)
    return Delegated(made, lambda value: value)


def _next_of(awaitable: Any, made: AsyncGeneratorType[Any, Any]) -> Delegated:
    """Return the step to the next `yield` of an asynchronous generator that Python runs."""

    def resume(value: Any) -> Yielded:
        return Yielded(
            value,
            lambda sent: _next_of(made.asend(sent), made),
            lambda error: _next_of(made.athrow(error), made),
        )

    return Delegated(awaitable.__await__(), resume, _end_of_iteration)


def _end_of_iteration(error: BaseException) -> None:
    """Raise the error unless it is the regular end of an asynchronous generator."""
    if not isinstance(error, StopAsyncIteration):
        raise error


def calling_all_positionally(function: FunctionType) -> Callable[..., Any]:
    """Call a function as a segment: with the values of all its parameters in slot order.

    A generator or coroutine is not called but begun: its first step is the result.
    """
    call = taking_all_positionally(function)
    if not is_suspendable(function.__code__):
        return call
    return lambda *values: step_of(call(*values))


def is_suspendable(code: CodeType) -> bool:
    """Return whether frames of this code can be suspended."""
    return bool(code.co_flags & SUSPENDABLE)


def half_way(step: Any, capturing: Capturing, name: str, qualname: str) -> Generator[Any, Any, Any]:
    """Return a generator that has given a value already and waits."""
    made: Any = drive(step, capturing)
    made.__name__, made.__qualname__ = name, qualname
    next(made)
    return made  # type: ignore[no-any-return]
