"""Rules for tensors that `torch.optim` uses as step counts and factors when it is compiled.

A captured optimizer keeps its step count in a tensor, so that it is not a constant. The factors
that are computed from it are tensors, too, and some operators take factors as numbers only.
"""

from __future__ import annotations

from typing import Any

import torch

from minitorch2.bytecode.optimizer_capture import bodies
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable
from minitorch2.bytecode.trackers.python_values.functions import UserFunctionVariable
from minitorch2.bytecode.trackers.python_values.sequence import SequenceVariable
from minitorch2.bytecode.trackers.torch_values.tensor import SPECIAL_METHODS, TensorVariable
from minitorch2.bytecode.trackers.torch_values.torch_function import handles
from minitorch2.native.torch_internals import functions


def _takes_factor(name: str, factor: str) -> None:
    """Let a method take a tensor for its factor."""
    polyfill = getattr(bodies, name)

    def call(
        tensor: TensorVariable,
        evaluator: Evaluator,
        *args: VariableTracker,
        **kwargs: VariableTracker,
    ) -> VariableTracker:
        if isinstance(kwargs.get(factor), TensorVariable):
            return evaluator.capture.wrap(polyfill, None).call(evaluator, [tensor, *args], kwargs)
        given = [tensor, *args]
        return evaluator.capture.call_in_graph(evaluator, "call_method", name, given, kwargs)

    SPECIAL_METHODS[name] = call


_takes_factor("add_", "alpha")
_takes_factor("addcdiv_", "value")


@handles(torch._foreach_addcdiv_)
def foreach_addcdiv_(
    evaluator: Evaluator, *args: VariableTracker, **kwargs: Any
) -> VariableTracker:
    """``torch._foreach_addcdiv_(tensors, numerators, denominators, factors)``"""
    if len(args) == 4 and _has_tensors(evaluator, args[3]):
        body = evaluator.capture.wrap(bodies.foreach_addcdiv_, None)
        return body.call(evaluator, args, kwargs)
    call = evaluator.capture.call_in_graph
    return call(evaluator, "call_function", torch._foreach_addcdiv_, args, kwargs)


def _has_tensors(evaluator: Evaluator, factors: VariableTracker) -> bool:
    """Return whether factors are a tensor, or a sequence with a tensor in it."""
    if isinstance(factors, SequenceVariable):
        return any(isinstance(each, TensorVariable) for each in factors.items(evaluator))
    return isinstance(factors, TensorVariable)


def _decides_on_tensors(function: Any) -> None:
    """Let an optimizer decide as it does for CUDA graphs: on tensors, not on the number of steps.

    ``if rho_t > 5: ...`` branches on data where the step count is a tensor; with `capturable`,
    the same is a ``torch.where``.
    """

    @handles(function)
    def call(
        evaluator: Evaluator, *args: VariableTracker, **kwargs: VariableTracker
    ) -> VariableTracker:
        body = UserFunctionVariable(function, source=evaluator.capture.reference(function))
        return body.call(evaluator, args, {**kwargs, "capturable": ConstantVariable(True)})


for _function in (
    functions.single_tensor_radam,
    functions.multi_tensor_radam,
    functions.single_tensor_asgd,
    functions.multi_tensor_asgd,
):
    _decides_on_tensors(_function)
