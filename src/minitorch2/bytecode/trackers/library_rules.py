"""What a few functions of the standard library do on trackers, where their source is no guide."""

from __future__ import annotations

import inspect
import types
from typing import TYPE_CHECKING

import torch

from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.builtin import models
from minitorch2.bytecode.trackers.classes import constructs
from minitorch2.bytecode.trackers.functions import UserFunctionVariable
from minitorch2.bytecode.trackers.get_attr import BoundMethodVariable

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
