"""Compiled generators, coroutines and asynchronous generators.

Their compiled form is a function of the same kind. It makes one step after another: the code
between two steps is captured as a function (`minitorch2.bytecode.frames.steps`).
"""

from __future__ import annotations

import types
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_ITERABLE_COROUTINE
from types import CodeType, FunctionType

from minitorch2.bytecode.frames.steps import Capturing, awaited, drive, until_yield

_GENERATOR = """\
def dispatch({header}):
    try:
        if {changed}:
            _minitorch2_follow(_minitorch2_globals())
        _minitorch2_steps = _minitorch2_drive(_minitorch2_begin({values}))
        {forget}
        return (yield from _minitorch2_steps)
    except _minitorch2_BaseException as _minitorch2_error:
        _minitorch2_hide(_minitorch2_error)
        raise
"""

_COROUTINE = "async " + _GENERATOR.replace("drive", "awaited").replace("yield from", "await")

_ASYNC_GENERATOR = """\
async def dispatch({header}):
    try:
        if {changed}:
            _minitorch2_follow(_minitorch2_globals())
        _minitorch2_step = _minitorch2_begin({values})
        {forget}
        while True:
            _minitorch2_step = await _minitorch2_until_yield(_minitorch2_step)
            if _minitorch2_step is None:
                return
            _minitorch2_thrown = None
            try:
                _minitorch2_sent = yield _minitorch2_step.value
            except _minitorch2_BaseException as _minitorch2_caught:
                if _minitorch2_step.throw is None:
                    raise
                _minitorch2_thrown = _minitorch2_caught
            if _minitorch2_thrown is None:
                _minitorch2_step = _minitorch2_step.resume(_minitorch2_sent)
            else:
                _minitorch2_step = _minitorch2_step.throw(_minitorch2_thrown)
    except _minitorch2_BaseException as _minitorch2_error:
        _minitorch2_hide(_minitorch2_error)
        raise
"""

_TEXTS = {CO_GENERATOR: _GENERATOR, CO_COROUTINE: _COROUTINE, CO_ASYNC_GENERATOR: _ASYNC_GENERATOR}


def dispatching_text(code: CodeType) -> str | None:
    """Return the definition of the compiled form; None if frames of the code cannot suspend."""
    return next((text for flag, text in _TEXTS.items() if code.co_flags & flag), None)


def names(capturing: Capturing) -> dict[str, object]:
    """Return the names that the definitions read, without `PRIVATE`.

    Args:
        capturing: makes the context of steps that are not captured themselves.
    """
    drivers = {"drive": drive, "awaited": awaited, "until_yield": until_yield}
    return {name: partial(driver, capturing=capturing) for name, driver in drivers.items()}


def of_the_same_kind(made: FunctionType, code: CodeType) -> FunctionType:
    """Return the made function; a generator that may be awaited (`types.coroutine`) stays one."""
    if code.co_flags & CO_ITERABLE_COROUTINE:
        made = types.coroutine(made)  # type: ignore[assignment]
    return made
