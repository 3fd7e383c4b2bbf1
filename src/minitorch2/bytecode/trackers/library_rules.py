"""What a few functions of the standard library do on trackers, where their source is no guide."""

from __future__ import annotations

import copy
import inspect
import types
from typing import TYPE_CHECKING

import torch

from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.builtin import models
from minitorch2.bytecode.trackers.classes import constructs
from minitorch2.bytecode.trackers.constant import ConstantVariable
from minitorch2.bytecode.trackers.functions import UserFunctionVariable
from minitorch2.bytecode.trackers.get_attr import BoundMethodVariable
from minitorch2.bytecode.trackers.mapping import DictVariable
from minitorch2.bytecode.trackers.sequence import ListVariable, TupleVariable
from minitorch2.bytecode.trackers.set import SetVariable

if TYPE_CHECKING:
    from minitorch2.bytecode.evaluator import Evaluator


@models(inspect.signature)
def signature(evaluator: Evaluator, function: VariableTracker) -> VariableTracker:
    """``inspect.signature`` of a function or method whose identity is guarded."""
    bound = isinstance(function, BoundMethodVariable)
    underlying = function.function if isinstance(function, BoundMethodVariable) else function
    if not isinstance(underlying, UserFunctionVariable):
        unsupported("signature", f"the signature of {function}")
    found = inspect.signature(underlying.value)
    if bound:
        found = found.replace(parameters=list(found.parameters.values())[1:])
    return evaluator.capture.wrap(found, evaluator.capture.reference(found))


@models(torch._C._log_api_usage_once)
def log_usage(evaluator: Evaluator, event: VariableTracker) -> None:
    """PyTorch's own usage counters are not part of the program's meaning."""


@constructs(types.MethodType)
def make_method(
    evaluator: Evaluator, function: VariableTracker, owner: VariableTracker
) -> VariableTracker:
    """``types.MethodType(function, owner)``"""
    return BoundMethodVariable(function, owner)


@models(copy.copy)
def shallow_copy(evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
    """``copy.copy`` of a container or a constant"""
    if isinstance(value, ConstantVariable | TupleVariable):
        return value
    if isinstance(value, ListVariable | DictVariable | SetVariable):
        return value.call_method(evaluator, "copy", [], {})
    return unsupported("copy", f"copy.copy of {value}")


@models(copy.deepcopy)
def deep_copy(evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
    """``copy.deepcopy`` of containers of constants"""
    return _deep_copy(value)


def _deep_copy(value: VariableTracker) -> VariableTracker:
    if isinstance(value, ConstantVariable):
        return value
    if isinstance(value, TupleVariable | ListVariable):
        return value.make([_deep_copy(element) for element in value.realized()])
    if isinstance(value, DictVariable):
        return value.make((key, _deep_copy(element)) for key, element in value.pairs())
    return unsupported("copy", f"copy.deepcopy of {value}")
