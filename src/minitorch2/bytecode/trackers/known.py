"""Values that are an object of the running program: modules, classes, functions of libraries."""

from __future__ import annotations

import types
from collections.abc import Hashable
from typing import Any, Final

from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.observed import raise_as_observed


class KnownObjectVariable(VariableTracker):
    """An object that is itself known while capturing; equal only to itself, and true."""

    def __init__(self, value: Any, **options: Any) -> None:
        super().__init__(**options)
        self.value = value

    def python_type(self) -> type:
        return type(self.value)

    def real_attribute(self, name: str) -> Any:
        """Return an attribute of the object; raise the user's AttributeError if there is none."""
        try:
            return getattr(self.value, name)
        except AttributeError as error:
            raise_as_observed(error)

    def hash_key(self) -> Hashable:
        return ("object", id(self.value))

    def truth(self, evaluator: Evaluator) -> bool:
        return True

    def rebuild(self, residual: Residual) -> str:
        return residual.reference(self.value)

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        if name in ("__eq__", "__ne__") and isinstance(self.value, BY_IDENTITY):
            same = self.value is getattr(args[0], "value", None)
            return evaluator.capture.wrap(same == (name == "__eq__"), None)
        return super().call_method(evaluator, name, args, kwargs)


class ConstantObjectVariable(KnownObjectVariable):
    """A known object that operators and constants may hold."""

    def is_constant(self) -> bool:
        return True

    def as_constant(self) -> Any:
        return self.value


BY_IDENTITY: Final = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
    types.MethodWrapperType,
)
"""Kinds of functions that are equal only to themselves."""
