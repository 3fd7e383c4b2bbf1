"""Python modules as values: ``torch``, ``math``, the user's own."""

from __future__ import annotations

import inspect
import sys
import types

from minitorch2.bytecode.guards import id_match
from minitorch2.bytecode.guards.sources import AttributeSource, FixedAttributeSource
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.descriptors import guard_absent, is_trusted
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.known import KnownObjectVariable
from minitorch2.bytecode.trackers.observed import raise_observed
from minitorch2.bytecode.trackers.python_values.constant import NONE, literal
from minitorch2.bytecode.trackers.side_effects import Deleted


class PythonModuleVariable(KnownObjectVariable):
    """A module. The attributes of PyTorch and the standard library count as fixed."""

    value: types.ModuleType

    def __repr__(self) -> str:
        return f"PythonModuleVariable({self._name})"

    @property
    def _name(self) -> object:
        """The name that the module says it has: maybe none, or no text."""
        return self.value.__dict__.get("__name__")

    def _property(self, evaluator: Evaluator, name: str) -> VariableTracker | None:
        """Return what computes an attribute, of a module of a class of its own; or None."""
        raw = inspect.getattr_static(type(self.value), name, None)
        if isinstance(getattr(type(raw), "__set__", None), types.FunctionType):
            return evaluator.capture.wrap(raw, None)
        return None

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if (computed := self._property(evaluator, name)) is not None:
            return computed.call_method(evaluator, "__get__", [self, NONE], {})
        effects = evaluator.capture.side_effects
        namespace = self.value.__dict__
        pending = effects.load_global(namespace, name)
        if isinstance(pending, VariableTracker):
            return pending
        source = self.source or evaluator.capture.reference(self.value)
        try:
            value = getattr(self.value, name)
        except AttributeError:
            pending = Deleted()
        if isinstance(pending, Deleted):
            self.guards |= {guard_absent(evaluator, source, name)}
            called = f" {self._name!r}" if isinstance(self._name, str) else ""
            message = f"module{called} has no attribute {name!r}"
            raise_observed(AttributeError, message)
        if isinstance(value, str) and name.startswith("__"):
            return literal(value)
        fixed = is_trusted(self._name) or value is sys.modules.get(f"{self._name}.{name}")
        step = FixedAttributeSource if fixed else AttributeSource
        if fixed and callable(value):  # a program may replace a function, but not a constant
            evaluator.capture.add_guard(
                id_match(AttributeSource(source, name), value, evaluator.source_line())
            )
        result = evaluator.capture.wrap(value, step(source, name))
        result.guards |= self.guards
        return result

    def set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        if (computed := self._property(evaluator, name)) is not None:
            computed.call_method(evaluator, "__set__", [self, value], {})
            return
        evaluator.capture.side_effects.store_global(self.value.__dict__, name, value)
