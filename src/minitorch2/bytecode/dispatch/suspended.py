"""Compiled generators, coroutines and asynchronous generators.

The body of a function that can be suspended runs in Python, one step after another; what each step
calls is captured. So its compiled form is a function of the same kind that passes on each step
(PEP 342, 492, 525), with the frame hook enabled during the step and no longer: between two steps
other tasks run on the same thread.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_ITERABLE_COROUTINE
from types import CodeType, FunctionType
from typing import Any

Capturing = Callable[[], AbstractContextManager[object]]


class Steps(Generator[Any, Any, Any]):
    """A generator or an awaitable's iterator, each step of which is made in a context."""

    def __init__(self, inner: Any, capturing: Capturing) -> None:
        self._inner = inner
        self._capturing = capturing

    def send(self, value: Any) -> Any:
        """The next step."""
        with self._capturing():
            return self._inner.send(value)

    def throw(self, *error: Any) -> Any:
        """The next step begins with an exception."""
        with self._capturing():
            return self._inner.throw(*error)

    def close(self) -> None:
        """The last step."""
        with self._capturing():
            self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self


_GENERATOR = """\
def dispatch({header}):
    try:
        return (yield from _minitorch2_steps(_minitorch2_function({call})))
    except BaseException as _minitorch2_error:
        _minitorch2_hide(_minitorch2_error)
        raise
"""

_COROUTINE = """\
async def dispatch({header}):
    try:
        return await _minitorch2_steps(_minitorch2_function({call}))
    except BaseException as _minitorch2_error:
        _minitorch2_hide(_minitorch2_error)
        raise
"""

_ASYNC_GENERATOR = """\
async def dispatch({header}):
    _minitorch2_made = _minitorch2_function({call})
    try:
        _minitorch2_step = _minitorch2_made.__anext__()
        while True:
            try:
                _minitorch2_value = await _minitorch2_steps(_minitorch2_step)
            except StopAsyncIteration:
                return
            try:
                _minitorch2_sent = yield _minitorch2_value
            except GeneratorExit:
                await _minitorch2_steps(_minitorch2_made.aclose())
                raise
            except BaseException as _minitorch2_thrown:
                _minitorch2_step = _minitorch2_made.athrow(_minitorch2_thrown)
            else:
                _minitorch2_step = _minitorch2_made.asend(_minitorch2_sent)
    except BaseException as _minitorch2_error:
        _minitorch2_hide(_minitorch2_error)
        raise
"""

_TEXTS = {
    CO_GENERATOR: _GENERATOR,
    CO_COROUTINE: _COROUTINE,
    CO_ASYNC_GENERATOR: _ASYNC_GENERATOR,
}


def dispatching_text(code: CodeType) -> str | None:
    """The definition of the compiled form; None if frames of this code cannot be suspended."""
    return next((text for flag, text in _TEXTS.items() if code.co_flags & flag), None)


def steps(capturing: Capturing) -> Callable[[Any], Steps]:
    """What the definitions call `_minitorch2_steps`."""
    return lambda inner: Steps(inner, capturing)


def of_the_same_kind(made: FunctionType, code: CodeType) -> FunctionType:
    """A generator that may be awaited (`types.coroutine`) stays one."""
    if code.co_flags & CO_ITERABLE_COROUTINE:
        made = types.coroutine(made)  # type: ignore[assignment]
    return made
