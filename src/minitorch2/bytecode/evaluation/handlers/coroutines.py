"""Instructions of ``async def`` functions: await, ``async for``, ``async with``."""

from __future__ import annotations

from minitorch2.bytecode.evaluation.evaluator import handles
from minitorch2.bytecode.evaluation.handlers.exceptions import raise_exception
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.observed import raise_observed
from minitorch2.bytecode.trackers.python_values.coroutine import AsyncItem, awaited


@handles("GET_AWAITABLE")
def get_awaitable(evaluator: Evaluator, instruction: Instruction) -> None:
    """``awaitable -> iterator``"""
    evaluator.push(awaited(evaluator, evaluator.pop()))


@handles("GET_AITER")
def get_aiter(evaluator: Evaluator, instruction: Instruction) -> None:
    """``iterable -> iterable.__aiter__()``"""
    iterable = evaluator.pop()
    iterator = _special(evaluator, iterable, "__aiter__", "an object with __aiter__ method")
    if not hasattr(iterator.python_type(), "__anext__"):
        kind = iterator.python_type().__name__
        cause = "'async for' received an object from __aiter__ that does not implement __anext__"
        raise_observed(TypeError, f"{cause}: {kind}")
    evaluator.push(iterator)


@handles("GET_ANEXT")
def get_anext(evaluator: Evaluator, instruction: Instruction) -> None:
    """``iterator -> iterator awaitable``"""
    iterator = evaluator.stack[-1]
    step = _special(evaluator, iterator, "__anext__", "an iterator with __anext__ method")
    evaluator.push(awaited(evaluator, step))


def _special(
    evaluator: Evaluator, owner: VariableTracker, name: str, wanted: str
) -> VariableTracker:
    kind = owner.python_type()
    if not hasattr(kind, name):
        raise_observed(TypeError, f"'async for' requires {wanted}, got {kind.__name__}")
    return owner.call_method(evaluator, name, [], {})


@handles("END_ASYNC_FOR")
def end_async_for(evaluator: Evaluator, instruction: Instruction) -> None:
    """``iterator exception ->``; other than StopAsyncIteration it is raised again."""
    exception = evaluator.pop()
    if not issubclass(exception.python_type(), StopAsyncIteration):
        raise_exception(exception)
    evaluator.pop()


@handles("BEFORE_ASYNC_WITH")
def before_async_with(evaluator: Evaluator, instruction: Instruction) -> None:
    """``manager -> manager.__aexit__ manager.__aenter__()``"""
    manager = evaluator.pop()
    kind = manager.python_type()
    for name, missed in (("__aenter__", ""), ("__aexit__", " (missed __aexit__ method)")):
        if not hasattr(kind, name):
            cause = "object does not support the asynchronous context manager protocol"
            raise_observed(TypeError, f"{kind.__name__!r} {cause}{missed}")
    evaluator.push(manager.get_attribute(evaluator, "__aexit__"))
    evaluator.push(manager.call_method(evaluator, "__aenter__", [], {}))


@handles("ASYNC_GEN_WRAP")
def async_gen_wrap(evaluator: Evaluator, instruction: Instruction) -> None:
    """``item -> marked item``: a value for the caller, unlike those that ``await`` passes on."""
    evaluator.push(AsyncItem(evaluator.pop()))
