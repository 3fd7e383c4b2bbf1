"""Rules for a few functions of the standard library whose source cannot be evaluated."""

from __future__ import annotations

import inspect
import logging
import sys
import types
import typing
from typing import Any

from minitorch2.bytecode.guards import LoggerDisabled
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import MISSING
from minitorch2.bytecode.trackers.get_attr import BoundMethodVariable
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.observed import raise_as_observed
from minitorch2.bytecode.trackers.python_values.builtin import models
from minitorch2.bytecode.trackers.python_values.classes import known_object
from minitorch2.bytecode.trackers.python_values.constant import NONE, ConstantVariable
from minitorch2.bytecode.trackers.python_values.exceptions import exception_info
from minitorch2.bytecode.trackers.python_values.functions import (
    NestedFunctionVariable,
    UserFunctionVariable,
)
from minitorch2.bytecode.trackers.python_values.sequence import TupleVariable
from minitorch2.native.torch_internals.global_state import log_usage_once


@models(inspect.signature)
def signature(evaluator: Evaluator, function: VariableTracker) -> VariableTracker:
    """``inspect.signature`` of a function or method whose identity is guarded."""
    bound = isinstance(function, BoundMethodVariable)
    underlying = function.function if isinstance(function, BoundMethodVariable) else function
    if isinstance(underlying, NestedFunctionVariable):
        underlying = UserFunctionVariable(underlying.described())
    if not isinstance(underlying, UserFunctionVariable):
        unsupported("signature", f"the signature of {function}")
    found = inspect.signature(underlying.value)
    if bound:
        found = found.replace(parameters=list(found.parameters.values())[1:])
    return evaluator.capture.wrap(found, evaluator.capture.reference(found))


@models(sys.exc_info)
def handled_exception(evaluator: Evaluator) -> VariableTracker:
    """``sys.exc_info()`` while the captured code handles an exception"""
    return TupleVariable(exception_info(evaluator))


@models(sys.exception)
def present_exception(evaluator: Evaluator) -> VariableTracker:
    """``sys.exception()`` while the captured code handles an exception"""
    return exception_info(evaluator)[1]


@models(logging.getLogger)
def get_logger(evaluator: Evaluator, name: VariableTracker = NONE) -> VariableTracker:
    """``logging.getLogger(name)``: one object for each name, for ever"""
    logger = logging.getLogger(name.as_constant())
    return evaluator.capture.wrap(logger, evaluator.capture.reference(logger))


@models(logging.Logger.isEnabledFor)
def is_enabled_for(
    evaluator: Evaluator, logger: VariableTracker, level: VariableTracker
) -> VariableTracker:
    """Return False for a level that is disabled, guarded to stay so; a shown message is a break."""
    real = getattr(logger, "value", None)
    if not isinstance(real, logging.Logger) or logger.source is None:
        unsupported("logging", f"a message to {logger}")
    if real.isEnabledFor(level.as_constant()):
        unsupported("logging", f"a message of level {level.as_constant()} to {real.name}")
    line = evaluator.source_line()
    guard = LoggerDisabled(logger.source, level.as_constant(), user_line=line)
    evaluator.capture.add_guard(guard)
    return ConstantVariable(False)


def _subscripts() -> list[Any]:
    """Return the methods by which `typing` makes ``List[int]``, ``ClassVar[int]`` and others."""
    classes = [kind for kind in vars(typing).values() if isinstance(kind, type)]
    found = [kind.__dict__.get("__getitem__") for kind in classes]
    return [each for each in found if isinstance(each, types.FunctionType)]


@models(*_subscripts())
def subscript_of_form(
    evaluator: Evaluator, form: VariableTracker, parameters: VariableTracker
) -> VariableTracker:
    """Subscript a form of `typing` with known parameters, which gives an equal one each time."""
    known: Any = known_object(parameters)
    real: Any = getattr(form, "value", MISSING)
    if known is MISSING or real is MISSING:
        unsupported("class-subscript", f"{form}[...]")
    try:
        made = real[known]
    except TypeError as error:
        raise_as_observed(error)
    return evaluator.capture.wrap(made, None)


@models(log_usage_once)
def log_usage(evaluator: Evaluator, event: VariableTracker) -> None:
    """Do nothing: PyTorch's usage counters are not part of the program's meaning."""
