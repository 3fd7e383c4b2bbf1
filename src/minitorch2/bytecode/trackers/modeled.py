"""Values whose methods are modelled one by one: containers, iterators, ranges, slices.

The model of ``list.append`` is a Python method called ``py_append`` of the tracker; it takes the
evaluator and the arguments' trackers, and its result is the call's result (None for None). So a
tracker's source lists exactly what it can do, and everything else is a graph break.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from minitorch2.bytecode.observed import raise_observed
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.constant import NONE, literal
from minitorch2.bytecode.trackers.get_attr import GetAttrVariable

if TYPE_CHECKING:
    from minitorch2.bytecode.evaluator import Evaluator

Model = Callable[..., VariableTracker | None]


class ModeledVariable(VariableTracker):
    """A value with methods ``py_<name>``."""

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if self.model(name) is not None or callable(getattr(self.python_type(), name, None)):
            return GetAttrVariable(self, name)
        if name == "__class__":
            cls = self.python_type()
            return evaluator.capture.wrap(cls, evaluator.capture.reference(cls))
        if name == "__doc__":
            return literal(self.python_type().__doc__)
        message = f"{self.python_type().__name__!r} object has no attribute {name!r}"
        if hasattr(self.python_type(), name):
            unsupported("attribute", f"attribute {name!r} of a {self.python_type().__name__}")
        return raise_observed(AttributeError, message)

    def call_method(
        self,
        evaluator: Evaluator,
        name: str,
        args: Sequence[VariableTracker],
        kwargs: dict[str, VariableTracker],
    ) -> VariableTracker:
        model = self.model(name)
        if model is None:
            return self.call_unmodeled(evaluator, name, args, kwargs)
        try:
            result = model(evaluator, *args, **kwargs)
        except TypeError as error:
            if _accepts(model, evaluator, args, kwargs):
                raise
            raise_observed(TypeError, str(error).replace("py_", ""))
        return NONE if result is None else result

    def model(self, name: str) -> Model | None:
        """The model of a method, if there is one."""
        return getattr(self, f"py_{name}", None)

    def call_unmodeled(
        self,
        evaluator: Evaluator,
        name: str,
        args: Sequence[VariableTracker],
        kwargs: dict[str, VariableTracker],
    ) -> VariableTracker:
        """A method without a model."""
        type_name = self.python_type().__name__
        if not hasattr(self.python_type(), name):
            raise_observed(AttributeError, f"{type_name!r} object has no attribute {name!r}")
        return unsupported("method", f"method {name!r} of a {type_name}")


def _accepts(
    model: Model,
    evaluator: Evaluator,
    args: Sequence[VariableTracker],
    kwargs: dict[str, VariableTracker],
) -> bool:
    try:
        inspect.signature(model).bind(evaluator, *args, **kwargs)
    except TypeError:
        return False
    return True
