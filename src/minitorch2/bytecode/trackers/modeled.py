"""Values whose methods are modelled one by one: containers, iterators, ranges, slices.

The model of ``list.append`` is a Python method ``py_append`` of the tracker. It takes the evaluator
and the arguments' trackers, and its result is the call's result (None for None). So a tracker's
source lists exactly the methods that are modelled. Any other method is a graph break.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import MISSING, shared_attribute
from minitorch2.bytecode.trackers.get_attr import GetAttrVariable
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.observed import raise_observed
from minitorch2.bytecode.trackers.python_values.constant import (
    NONE,
    fold,
    literal,
    refuse_attribute,
)
from minitorch2.bytecode.trackers.rules import apply_rule
from minitorch2.bytecode.trackers.torch_values.tensor_names import words

Model = Callable[..., VariableTracker | None]

READING: Final = words(
    "__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__ __repr__ __str__ __format__ __sizeof__"
    " __len__ __contains__ __getitem__ count index"
)
"""Methods that change nothing: without a model, they fold on constants."""


class ModeledVariable(VariableTracker):
    """A value with methods ``py_<name>``."""

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name == "__class__":
            cls = self.python_type()
            return evaluator.capture.wrap(cls, evaluator.capture.reference(cls))
        known = evaluator.capture.side_effects.load_attribute(self, name)
        if isinstance(known, VariableTracker):
            return known
        found = shared_attribute(self.python_type(), name)
        if callable(found):
            return GetAttrVariable(self, name)
        if name == "__doc__":
            return literal(self.python_type().__doc__)
        message = f"{self.python_type().__name__!r} object has no attribute {name!r}"
        if found is not MISSING or (self.source is not None and self.python_type().__dictoffset__):
            unsupported("attribute", f"attribute {name!r} of a {self.python_type().__name__}")
        return raise_observed(AttributeError, message)

    def set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        refuse_attribute(self.python_type(), name)
        if self.source is not None or self.python_type() is not OrderedDict:
            return super().set_attribute(evaluator, name, value)
        evaluator.capture.side_effects.new_object(self)
        return evaluator.capture.side_effects.store_attribute(self, name, value)

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        model = self.model(name)
        if model is None or not hasattr(self.python_type(), name):
            return self.call_unmodeled(evaluator, name, args, kwargs)
        real: Any = getattr(self.python_type(), name, model)
        result = apply_rule(model, real, evaluator, args, kwargs, [self])
        return NONE if result is None else result

    whole: VariableTracker | None = None
    """The instance of a derived class that this container is a part of."""

    def record_change(self, evaluator: Evaluator) -> None:
        """Say that the contents change; they are written to the object that was loaded."""
        evaluator.capture.side_effects.mutated(self.whole or self)

    def model(self, name: str) -> Model | None:
        """Return the model of a method; None if there is none."""
        return getattr(self, f"py_{name}", None)

    def py___format__(self, evaluator: Evaluator, spec: VariableTracker) -> VariableTracker:
        if spec.is_constant() and spec.as_constant() and not self.is_constant():
            kind = self.python_type().__name__
            raise_observed(TypeError, f"unsupported format string passed to {kind}.__format__")
        text = self.call_method(evaluator, "__str__", [], {})
        return fold(format, [self if self.is_constant() else text, spec])

    def py___str__(self, evaluator: Evaluator) -> VariableTracker:
        if self.is_constant():
            return fold(str, [self])
        return self.call_method(evaluator, "__repr__", [], {})

    def call_unmodeled(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        """Call a method without a model."""
        type_name = self.python_type().__name__
        if name in READING and all(v.is_constant() for v in (self, *args, *kwargs.values())):
            return fold(getattr(self.python_type(), name), [self, *args], kwargs)
        if not hasattr(self.python_type(), name):
            raise_observed(AttributeError, f"{type_name!r} object has no attribute {name!r}")
        return unsupported("method", f"method {name!r} of a {type_name}")


class ComparedVariable(ModeledVariable):
    """A value with one model of its six comparisons."""

    def compare(self, evaluator: Evaluator, other: VariableTracker, symbol: str) -> VariableTracker:
        """``self <symbol> other``"""
        raise NotImplementedError

    def model(self, name: str) -> Model | None:
        symbol = _SYMBOLS.get(name)
        return partial(self.compare, symbol=symbol) if symbol else super().model(name)


_SYMBOLS: Final = {
    "__eq__": "==", "__ne__": "!=", "__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="
}  # fmt: skip
