"""Methods on their way to a call: built-in ones by name, functions bound to their first argument.

Slides: ``GetAttrVariable(obj, name="sum")``; paper, section 3.5: *UserMethodVariable*.
"""

from __future__ import annotations

from collections.abc import Hashable
from types import BuiltinMethodType, MethodType

from minitorch2.bytecode.guards.sources import Source
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.graph.scope import is_name


def attribute_of(residual: Residual, owner: VariableTracker, name: str) -> str:
    """Return the expression ``owner.name``; ``1.real`` would not be Python."""
    place = residual.name_for(owner)
    if not is_name(name):
        return f"{residual.reference(getattr)}({place}, {name!r})"
    return f"{place}.{name}" if place.isidentifier() else f"({place}).{name}"


class GetAttrVariable(VariableTracker):
    """The built-in method `name` bound to `owner`."""

    def __init__(self, owner: VariableTracker, name: str) -> None:
        super().__init__(guards=owner.guards)
        self.owner = owner
        self.name = name

    def __repr__(self) -> str:
        return f"GetAttrVariable({self.owner}, name={self.name!r})"

    def python_type(self) -> type:
        return BuiltinMethodType

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name == "__self__":
            return self.owner
        if name == "__name__":
            return evaluator.capture.wrap(self.name, None)
        return super().get_attribute(evaluator, name)

    def hash_key(self) -> Hashable:
        return unsupported("hash", f"the built-in method {self.name} as a key")

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        return self.owner.call_method(evaluator, self.name, args, kwargs)

    def reconstruct(self, residual: Residual) -> str:
        return attribute_of(residual, self.owner, self.name)


class BoundMethodVariable(VariableTracker):
    """A callable bound to its first argument: ``function.__get__(owner)`` of a Python function."""

    def __init__(
        self, function: VariableTracker, owner: VariableTracker, source: Source | None = None
    ) -> None:
        super().__init__(source=source, guards=function.guards | owner.guards)
        self.function = function
        self.owner = owner

    def __repr__(self) -> str:
        return f"BoundMethodVariable({self.function}, owner={self.owner})"

    def python_type(self) -> type:
        return MethodType

    def hash_key(self) -> Hashable:
        return ("method", self.function.hash_key(), self.owner.hash_key())

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        parts = {"__func__": self.function, "__self__": self.owner, "__call__": self}
        if name in parts:
            return parts[name]
        if name == "__class__":
            return evaluator.capture.wrap(MethodType, None)
        if name in ("__eq__", "__ne__"):
            return GetAttrVariable(self, name)
        return self.function.get_attribute(evaluator, name)

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        if name not in ("__eq__", "__ne__"):
            return super().call_method(evaluator, name, args, kwargs)
        other = args[0]
        if not isinstance(other, BoundMethodVariable):
            return evaluator.capture.wrap(NotImplemented, None)
        same = self.owner is other.owner and self.function is other.function
        if self.owner is not other.owner:
            evaluator.capture.guard_distinct(self.owner, other.owner)
        return evaluator.capture.wrap(same == (name == "__eq__"), None)

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        return self.function.call(evaluator, [self.owner, *args], kwargs)

    def rebuild(self, residual: Residual) -> str:
        method_type = residual.reference(MethodType, "MethodType")
        return f"{method_type}({residual.name_for(self.function)}, {residual.name_for(self.owner)})"
