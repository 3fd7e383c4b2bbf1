"""Operators made by `torch.library.triton_op`: Python functions that launch their kernels.

They are evaluated as functions of the user's, so that their kernels are nodes of the graph. An
operator with a gradient (`register_autograd`) is evaluated as the `torch.autograd.Function` that
its two functions make.
"""

from __future__ import annotations

import inspect
from typing import Any, Final
from weakref import WeakKeyDictionary

import torch

from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.known import KnownObjectVariable
from minitorch2.bytecode.trackers.python_values.classes import ClassVariable
from minitorch2.bytecode.trackers.torch_values.custom_function_rules import apply
from minitorch2.native.torch_internals.operators import (
    CUSTOM_OPERATORS,
    CustomOpDef,
    OpOverload,
    OpOverloadPacket,
)


def is_triton_operator(value: object) -> bool:
    """Return whether `triton_op`, not `custom_op`, made an operator: its function is a wrapper."""
    definition = definition_of(value)
    return definition is not None and definition._init_fn.__qualname__.startswith("triton_op.")


def definition_of(value: object) -> CustomOpDef | None:
    """Return the definition of an operator in Python, also of one found in `torch.ops`."""
    if not isinstance(value, OpOverload | OpOverloadPacket):
        return value if isinstance(value, CustomOpDef) else None
    return CUSTOM_OPERATORS.get(str(value).replace(".", "::", 1).removesuffix(".default"))


class TritonOperatorVariable(KnownObjectVariable):
    """One such operator; ``value`` is its definition."""

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        return self if name == "default" else super().get_attribute(evaluator, name)

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        body = self.value._abstract_fn
        if self.value._backward_fn is None:
            function = evaluator.capture.wrap(body, evaluator.capture.reference(body))
            return function.call(evaluator, args, kwargs)
        names = [*inspect.signature(body).parameters]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if [*given] != names[: len(given)]:
            unsupported("autograd-function", f"{body.__name__} is not given its first arguments")
        return apply(evaluator, ClassVariable(_function_of(self.value)), *given.values())


_FUNCTIONS: Final[WeakKeyDictionary[Any, type[torch.autograd.Function]]] = WeakKeyDictionary()
"""The class of each operator, which lives as long as the operator: guards know it by its id."""


def _function_of(definition: Any) -> type[torch.autograd.Function]:
    """Return the `torch.autograd.Function` of an operator and its gradient."""
    if definition not in _FUNCTIONS:
        _FUNCTIONS[definition] = _make_function(definition)
    return _FUNCTIONS[definition]


def save_nothing(ctx: Any, inputs: Any, output: Any) -> None:
    """Stand for the ``setup_context`` that `register_autograd` was not given."""


def _make_function(definition: Any) -> type[torch.autograd.Function]:
    setup = definition._setup_context_fn or save_nothing
    if [*inspect.signature(setup).parameters] != ["ctx", "inputs", "output"]:
        unsupported("autograd-function", "setup_context has other arguments, or another order")
    parts = {
        "forward": staticmethod(definition._abstract_fn),
        "setup_context": staticmethod(setup),
        "backward": staticmethod(definition._backward_fn),
    }
    return type(definition._name, (torch.autograd.Function,), parts)
