"""Instructions of generators, and of ``yield from`` and ``await``."""

from __future__ import annotations

from minitorch2.bytecode.evaluation.evaluator import handles
from minitorch2.bytecode.evaluation.handlers.exceptions import raise_exception
from minitorch2.bytecode.frames.left_to_python import cause_of
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.observed import ObservedError, raise_observed
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable
from minitorch2.bytecode.trackers.python_values.coroutine import AsyncStep, comes_from_outside
from minitorch2.bytecode.trackers.python_values.generator import (
    GeneratorVariable,
    OutsideWait,
    finish_delegation,
)


@handles("RETURN_GENERATOR")
def return_generator(evaluator: Evaluator, instruction: Instruction) -> None:
    """Push the None that CPython pops: a generator's evaluator starts behind its creation."""
    evaluator.push(ConstantVariable(None))


@handles("YIELD_VALUE")
def yield_value(evaluator: Evaluator, instruction: Instruction) -> None:
    """``value -> sent value``: the frame waits until it is resumed."""
    evaluator.yielded = evaluator.pop()


@handles("SEND")
def send(evaluator: Evaluator, instruction: Instruction) -> None:
    """``iterator value -> iterator item``, or ``iterator result`` and jump at its end.

    The captured frame is suspended if the iterator comes from outside: its steps are made in
    Python, behind this segment. So is each frame that waits for a frame that waits for such an
    iterator.
    """
    value = evaluator.pop()
    iterator = evaluator.stack[-1]
    try:
        evaluator.push(_send(evaluator, iterator, value))
    except ObservedError as error:
        if error.kind is not StopIteration:
            raise
        finish_delegation(evaluator, error, instruction)
    except OutsideWait:
        if evaluator.parent is not None:
            raise
        evaluator.is_waiting = True


def _send(
    evaluator: Evaluator, iterator: VariableTracker, value: VariableTracker
) -> VariableTracker:
    nothing = value.is_constant() and value.as_constant() is None
    if isinstance(iterator, GeneratorVariable | AsyncStep):
        return iterator.py_send(evaluator, value)
    if nothing and comes_from_outside(iterator):
        cause = f"{evaluator.code.co_name} waits for what runs outside of the function"
        raise OutsideWait(cause, code="async", user_line=evaluator.source_line())
    method, args = ("__next__", []) if nothing else ("send", [value])
    return iterator.call_method(evaluator, method, args, {})


@handles("END_SEND")
def end_send(evaluator: Evaluator, instruction: Instruction) -> None:
    """``iterator result -> result``"""
    result = evaluator.pop()
    evaluator.pop()
    evaluator.push(result)


@handles("CLEANUP_THROW")
def cleanup_throw(evaluator: Evaluator, instruction: Instruction) -> None:
    """``iterator sent exception -> None result``; other than StopIteration it is raised again.

    It runs when an exception leaves a generator that waits in ``yield from`` (3.12 and later).
    """
    exception = evaluator.pop()
    if not issubclass(exception.python_type(), StopIteration):
        raise_exception(exception)
    evaluator.popn(2)
    evaluator.push(ConstantVariable(None))
    evaluator.push(exception.get_attribute(evaluator, "value"))


@handles("CALL_INTRINSIC_1")
def call_intrinsic(evaluator: Evaluator, instruction: Instruction) -> None:
    """Turn a StopIteration that leaves a generator into a RuntimeError (3.12 and later)."""
    if instruction.argval != "INTRINSIC_STOPITERATION_ERROR":
        unsupported("instruction", cause_of(instruction.opname))
    if issubclass(evaluator.stack[-1].python_type(), StopIteration):
        raise_observed(RuntimeError, "generator raised StopIteration")
