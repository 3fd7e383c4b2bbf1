"""Values that are an object of the running program: modules, classes, functions of libraries."""

from __future__ import annotations

import types
from collections.abc import Hashable
from typing import Any, Final

from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.get_attr import GetAttrVariable
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.observed import raise_as_observed

_TEXTS: Final = ("__str__", "__repr__", "__format__")
_PLAIN: Final = types.BuiltinFunctionType | types.FunctionType


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
        if name in ("__eq__", "__ne__") and compares_by_identity(type(self.value)):
            same = self.value is getattr(args[0], "value", None)
            return evaluator.capture.wrap(name == "__eq__" if same else NotImplemented, None)
        if name in _TEXTS and isinstance(self.value, _PLAIN):
            return evaluator.capture.wrap(repr(self.value), None)
        method = self.get_attribute(evaluator, name)
        if isinstance(method, GetAttrVariable):  # it would call this method again
            return unsupported("call", f"method {name!r} of {self}")
        return method.call(evaluator, args, kwargs)


class ConstantObjectVariable(KnownObjectVariable):
    """A known object that operators and constants may hold."""

    def is_constant(self) -> bool:
        return True

    def as_constant(self) -> Any:
        return self.value


def compares_by_identity(cls: type) -> bool:
    """Return whether the objects of a class are equal only to themselves."""
    is_inherited = all(getattr(cls, it) is getattr(object, it) for it in ("__eq__", "__ne__"))
    return is_inherited or issubclass(cls, types.BuiltinFunctionType | types.MethodWrapperType)
