"""Coroutines and asynchronous generators whose code is evaluated while capturing.

A coroutine is a suspended frame as a generator is, without ``__next__``. An asynchronous generator
is one, too. It marks the values that it yields (`AsyncItem`). So the steps of ``__anext__`` and its
like (`AsyncStep`) tell them from the values that an ``await`` inside of it passes on. PEP 492, 525.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from types import AsyncGeneratorType, CoroutineType, FunctionType
from typing import Any, Final

from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import class_lookup
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.observed import ObservedError, raise_observed
from minitorch2.bytecode.trackers.python_values.constant import NONE
from minitorch2.bytecode.trackers.python_values.generator import GeneratorVariable
from minitorch2.bytecode.trackers.python_values.iterator import IteratorVariable
from minitorch2.bytecode.trackers.python_values.objects import ObjectVariable


class CoroutineVariable(GeneratorVariable):
    """A coroutine, made by a call of an ``async def`` function."""

    KIND = "coroutine"

    def python_type(self) -> type:
        return CoroutineType

    def py_send(self, evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
        """``coroutine.send(value)``"""
        if self.finished:
            raise_observed(RuntimeError, "cannot reuse already awaited coroutine")
        return super().py_send(evaluator, value)

    def py___await__(self, evaluator: Evaluator) -> VariableTracker:
        return self


class AsyncItem(VariableTracker):
    """A value that an asynchronous generator yields, on its way out of the frame."""

    def __init__(self, item: VariableTracker) -> None:
        super().__init__()
        self.item = item

    def reconstruct(self, residual: Residual) -> str:
        return residual.name_for(self.item)


class AsyncGeneratorVariable(GeneratorVariable):
    """An asynchronous generator."""

    KIND = "async generator"

    def python_type(self) -> type:
        return AsyncGeneratorType

    def py___aiter__(self, evaluator: Evaluator) -> VariableTracker:
        return self

    def py___anext__(self, evaluator: Evaluator) -> VariableTracker:
        return self.py_asend(evaluator, NONE)

    def py_asend(self, evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
        """``generator.asend(value)``"""
        return AsyncStep(self, lambda: GeneratorVariable.py_send(self, evaluator, value))

    def py_athrow(self, evaluator: Evaluator, *error: VariableTracker) -> VariableTracker:
        """``generator.athrow(exception)``"""
        return AsyncStep(self, lambda: GeneratorVariable.py_throw(self, evaluator, *error))

    def py_aclose(self, evaluator: Evaluator) -> VariableTracker:
        """``generator.aclose()``"""

        def close() -> VariableTracker:
            GeneratorVariable.py_close(self, evaluator)
            return NONE

        return AsyncStep(self, close)


async def _nothing() -> AsyncGenerator[None, None]:
    yield


def _step_type() -> type:
    step: Any = _nothing().__anext__()
    step.close()
    return type(step)


ASYNC_STEP: Final = _step_type()


class AsyncStep(IteratorVariable):
    """The iterator that an asynchronous generator's ``__anext__``, ``asend`` and others return.

    Args:
        generator: the asynchronous generator.
        begin: begins the step.
    """

    def __init__(
        self, generator: AsyncGeneratorVariable, begin: Callable[[], VariableTracker]
    ) -> None:
        super().__init__()
        self.generator, self._begin, self._begun = generator, begin, False

    def python_type(self) -> type:
        return ASYNC_STEP

    def next(self, evaluator: Evaluator) -> VariableTracker:
        return self.py_send(evaluator, NONE)

    def py___await__(self, evaluator: Evaluator) -> VariableTracker:
        return self

    def py_send(self, evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
        """Go on to the next item (StopIteration), or to a value that an ``await`` passes on."""
        frame = self.generator.frame
        try:
            if self._begun:
                found = GeneratorVariable.py_send(self.generator, evaluator, value)
            else:
                self._begun = True
                found = self._begin()
        except ObservedError as error:
            if error.kind is StopIteration and frame.result is not None:
                raise_observed(StopAsyncIteration)
            raise
        if isinstance(found, AsyncItem):
            raise ObservedError(StopIteration, values=(found.item,))
        if found is NONE and self.generator.finished:
            raise_observed(StopIteration)  # `aclose`
        return found


class AwaitableVariable(VariableTracker):
    """The iterator of an object that C code makes awaitable, such as a future."""

    def __init__(self, awaitable: VariableTracker) -> None:
        super().__init__()
        self.awaitable = awaitable

    def reconstruct(self, residual: Residual) -> str:
        return f"{residual.name_for(self.awaitable)}.__await__()"


class OutsideCoroutine(VariableTracker):
    """A coroutine of a library: its code runs in Python, when it is awaited.

    Args:
        function: the ``async def`` function; a call of it runs nothing yet.
    """

    def __init__(self, function: VariableTracker, args: Arguments, kwargs: Keywords) -> None:
        super().__init__()
        self.function, self.args, self.kwargs = function, list(args), dict(kwargs)

    def python_type(self) -> type:
        return CoroutineType

    def reconstruct(self, residual: Residual) -> str:
        parts = residual.arguments(self.args, self.kwargs)
        return f"{residual.name_for(self.function)}({parts})"


def comes_from_outside(iterator: VariableTracker) -> bool:
    """Return whether Python has to make the steps of an iterator."""
    if isinstance(iterator, OutsideCoroutine | AwaitableVariable):
        return True
    kind = iterator.python_type()
    steps = class_lookup(kind, "__next__")[1]
    return isinstance(iterator, ObjectVariable) and not isinstance(steps, FunctionType)


def awaited(evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
    """Return the iterator whose steps ``await value`` makes."""
    if isinstance(value, CoroutineVariable | OutsideCoroutine | AsyncStep):
        return value
    kind: Any = value.python_type()
    if kind is CoroutineType or (isinstance(value, GeneratorVariable) and value.is_awaitable):
        return value
    method = class_lookup(kind, "__await__")[1]
    if isinstance(method, FunctionType):
        return value.call_method(evaluator, "__await__", [], {})
    if not hasattr(kind, "__await__"):
        raise_observed(TypeError, f"object {kind.__name__} can't be used in 'await' expression")
    if not isinstance(value, ObjectVariable):
        unsupported("async", f"a {kind.__name__} is awaited")
    return AwaitableVariable(value)
