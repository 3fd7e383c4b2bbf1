"""Descriptors that the captured code makes: ``property``, ``staticmethod``, ``classmethod``, ...

While capturing, a real descriptor stands in for each, made of stand-ins for its functions. So a
class that holds it is a class like all others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.get_attr import BoundMethodVariable, GetAttrVariable
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.known import KnownObjectVariable
from minitorch2.bytecode.trackers.observed import raise_observed
from minitorch2.bytecode.trackers.python_values.classes import constructs
from minitorch2.bytecode.trackers.python_values.constant import NONE, is_none
from minitorch2.bytecode.trackers.python_values.stand_ins import stand_in


class DescriptorVariable(KnownObjectVariable):
    """A descriptor of the class `kind`, by the arguments that make it."""

    def __init__(
        self, evaluator: Evaluator, kind: Callable[..., object], parts: Sequence[VariableTracker]
    ) -> None:
        references = evaluator.capture.references
        super().__init__(kind(*(stand_in(references, part) for part in parts)))
        self.kind, self.parts = kind, list(parts)
        references.stand_for(self.value, self)

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name == "__isabstractmethod__":
            return evaluator.capture.wrap(getattr(self.value, name, False), None)
        if name == "__class__":
            return evaluator.capture.wrap(self.kind, None)
        if name in ("__func__", "__wrapped__", "func") and hasattr(self.value, name):
            return self.parts[0]
        if self.kind in (staticmethod, classmethod):
            return self.parts[0].get_attribute(evaluator, name)
        if not hasattr(self.value, name):
            kind = type(self.value).__name__
            raise_observed(AttributeError, f"{kind!r} object has no attribute {name!r}")
        return unsupported("attribute", f"attribute {name!r} of a {type(self.value).__name__}")

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        if self.kind is staticmethod:
            return self.parts[0].call(evaluator, args, kwargs)
        return raise_observed(TypeError, f"{type(self.value).__name__!r} object is not callable")

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        if name == "__get__":
            return self._get(evaluator, *args)
        return super().call_method(evaluator, name, args, kwargs)

    def _get(
        self, evaluator: Evaluator, owner: VariableTracker, cls: VariableTracker = NONE
    ) -> VariableTracker:
        """``descriptor.__get__(owner, cls)``"""
        if self.kind is staticmethod:
            return self.parts[0]
        if self.kind is classmethod:
            bound_to = evaluator.capture.wrap(owner.python_type(), None) if is_none(cls) else cls
            return BoundMethodVariable(self.parts[0], bound_to)
        return unsupported("descriptor", f"`__get__` of a {type(self.value).__name__}")

    def reconstruct(self, residual: Residual) -> str:
        parts = ", ".join(map(residual.name_for, self.parts))
        return f"{residual.reference(self.kind)}({parts})"


class PropertyVariable(DescriptorVariable):
    """A property that the captured code makes."""

    FIELDS = ("fget", "fset", "fdel", "doc")

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name in self.FIELDS[:3]:
            return self.parts[self.FIELDS.index(name)]
        if name in ("getter", "setter", "deleter", "__get__"):
            return GetAttrVariable(self, name)
        if name == "__doc__":
            return self._doc(evaluator)
        return super().get_attribute(evaluator, name)

    def _doc(self, evaluator: Evaluator) -> VariableTracker:
        if not is_none(self.parts[3]) or is_none(self.parts[0]):
            return self.parts[3]
        return self.parts[0].get_attribute(evaluator, "__doc__")

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        if name in ("getter", "setter", "deleter"):
            place = self.FIELDS.index(f"f{name[:3]}")
            parts = [*self.parts[:place], args[0], *self.parts[place + 1 :]]
            return PropertyVariable(evaluator, property, parts)
        return super().call_method(evaluator, name, args, kwargs)

    def _get(
        self, evaluator: Evaluator, owner: VariableTracker, cls: VariableTracker = NONE
    ) -> VariableTracker:
        return self if is_none(owner) else self.parts[0].call(evaluator, [owner], {})


@constructs(property)
def make_property(
    evaluator: Evaluator,
    fget: VariableTracker = NONE,
    fset: VariableTracker = NONE,
    fdel: VariableTracker = NONE,
    doc: VariableTracker = NONE,
) -> VariableTracker:
    """``property(fget, fset, fdel, doc)``"""
    return PropertyVariable(evaluator, property, [fget, fset, fdel, doc])


def _of_one_function(kind: type) -> None:
    """Register a descriptor that is made of a function."""

    def rule(evaluator: Evaluator, function: VariableTracker) -> VariableTracker:
        return DescriptorVariable(evaluator, kind, [function])

    constructs(kind)(rule)


for _kind in (staticmethod, classmethod, functools.cached_property):
    _of_one_function(_kind)
