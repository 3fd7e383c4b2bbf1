"""Instructions of ``raise``, ``try`` and ``with``."""

from __future__ import annotations

import builtins
from typing import NoReturn

from minitorch2.bytecode.evaluation.evaluator import handles
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.observed import ObservedError, raise_observed
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable
from minitorch2.bytecode.trackers.python_values.exceptions import HandledBefore, TracebackVariable


@handles("RAISE_VARARGS")
def raise_varargs(evaluator: Evaluator, instruction: Instruction) -> None:
    """``[exception [cause]] ->``; without operands the handled exception is raised again."""
    operands = evaluator.popn(instruction.argval)
    if not operands:
        if not evaluator.handled:
            unsupported("bare-raise", "a raise of the exception that a caller handles")
        raise_exception(evaluator.handled[-1], again=True)
    exception = _instance(evaluator, operands[0])
    if len(operands) == 2:
        exception.set_attribute(evaluator, "__cause__", _cause(evaluator, operands[1]))
    raise_exception(exception)


def _instance(evaluator: Evaluator, exception: VariableTracker) -> VariableTracker:
    """``raise ValueError`` makes an instance."""
    return evaluator.call(exception) if issubclass(exception.python_type(), type) else exception


def _cause(evaluator: Evaluator, cause: VariableTracker) -> VariableTracker:
    """``raise error from None`` hides the context."""
    if cause.is_constant() and cause.as_constant() is None:
        return cause
    cause = _instance(evaluator, cause)
    if not issubclass(cause.python_type(), BaseException):
        raise_observed(TypeError, "exception causes must derive from BaseException")
    return cause


def raise_exception(exception: VariableTracker, *, again: bool = False) -> NoReturn:
    """Raise an exception object in the user's program; `again` leaves its context as it was."""
    kind = exception.python_type()
    if not issubclass(kind, BaseException):
        raise_observed(TypeError, "exceptions must derive from BaseException")
    error = ObservedError(kind, exception=exception)
    error.is_noted = again
    raise error


@handles("RERAISE")
def reraise(evaluator: Evaluator, instruction: Instruction) -> None:
    """``exception ->``; raise it again."""
    raise_exception(evaluator.pop(), again=True)


@handles("PUSH_EXC_INFO")
def push_exc_info(evaluator: Evaluator, instruction: Instruction) -> None:
    """``exception -> previous exception``: the exception is the handled one now."""
    exception = evaluator.pop()
    evaluator.handled_at.append(len(evaluator.stack))
    evaluator.push(evaluator.handled[-1] if evaluator.handled else HandledBefore())
    evaluator.handled.append(exception)
    evaluator.push(exception)


@handles("POP_EXCEPT")
def pop_except(evaluator: Evaluator, instruction: Instruction) -> None:
    """``previous ->``: the previous exception is the handled one again."""
    evaluator.pop()
    evaluator.handled.pop()
    evaluator.handled_at.pop()


@handles("CHECK_EXC_MATCH")
def check_exc_match(evaluator: Evaluator, instruction: Instruction) -> None:
    """``exception class -> exception bool``"""
    wanted = evaluator.pop()
    kinds = tuple(_classes(evaluator, wanted))
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        message = "catching classes that do not inherit from BaseException is not allowed"
        raise_observed(TypeError, message)
    matches = issubclass(evaluator.stack[-1].python_type(), kinds)
    evaluator.push(ConstantVariable(matches))


def _classes(evaluator: Evaluator, wanted: VariableTracker) -> list[type]:
    if wanted.python_type() is not tuple:
        return [class_of(wanted)]
    return [cls for item in wanted.items(evaluator) for cls in _classes(evaluator, item)]


def class_of(tracker: VariableTracker) -> type:
    """Return the class that a tracker of a class stands for."""
    value = getattr(tracker, "value", None)
    if not isinstance(value, type):
        unsupported("exception-class", f"{tracker} as the class of an except clause")
    return value


@handles("LOAD_ASSERTION_ERROR")
def load_assertion_error(evaluator: Evaluator, instruction: Instruction) -> None:
    """``-> AssertionError``"""
    kind = builtins.AssertionError
    evaluator.push(evaluator.capture.wrap(kind, evaluator.capture.reference(kind)))


@handles("BEFORE_WITH")
def before_with(evaluator: Evaluator, instruction: Instruction) -> None:
    """``manager -> manager.__exit__ manager.__enter__()``"""
    manager = evaluator.pop()
    leave = _protocol_method(evaluator, manager, "__exit__", " (missed __exit__ method)")
    entered = _protocol_method(evaluator, manager, "__enter__").call(evaluator, [], {})
    evaluator.push(leave)
    evaluator.push(entered)


def _protocol_method(
    evaluator: Evaluator, manager: VariableTracker, name: str, missed: str = ""
) -> VariableTracker:
    kind = manager.python_type()
    if hasattr(kind, name):
        return manager.get_attribute(evaluator, name)
    missed = missed if hasattr(kind, "__enter__") else ""
    cause = f"{kind.__name__!r} object does not support the context manager protocol{missed}"
    return raise_observed(TypeError, cause)


@handles("WITH_EXCEPT_START")
def with_except_start(evaluator: Evaluator, instruction: Instruction) -> None:
    """``exit lasti previous exception -> exit lasti previous exception result``"""
    leave, exception = evaluator.stack[-4], evaluator.stack[-1]
    kind = exception.python_type()
    cls = evaluator.capture.wrap(kind, evaluator.capture.reference(kind))
    evaluator.push(evaluator.call(leave, [cls, exception, TracebackVariable()]))
