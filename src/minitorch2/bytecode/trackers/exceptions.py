"""Exception objects that the captured code makes, raises and catches."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from minitorch2.bytecode.observed import ObservedError, raise_observed
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.constant import ConstantVariable
from minitorch2.bytecode.trackers.containers import TupleVariable

if TYPE_CHECKING:
    from minitorch2.bytecode.evaluator import Evaluator
    from minitorch2.bytecode.residual import Residual


class ExceptionVariable(VariableTracker):
    """``kind(*arguments)``, for a class whose constructor is that of its built-in base.

    Args:
        kind: the exception's class.
        arguments: trackers of the constructor's positional arguments.
    """

    def __init__(self, kind: type[BaseException], arguments: Sequence[VariableTracker]) -> None:
        super().__init__()
        self.kind = kind
        self.arguments = list(arguments)

    def python_type(self) -> type:
        return self.kind

    def truth(self, evaluator: Evaluator) -> bool:
        return True

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        pending = evaluator.capture.side_effects.load_attribute(self, name)
        if isinstance(pending, VariableTracker):
            return pending
        if name == "args":
            return TupleVariable(self.arguments)
        if name in ("__cause__", "__context__"):
            return ConstantVariable(None)
        if not hasattr(self.kind, name):
            raise_observed(
                AttributeError, f"{self.kind.__name__!r} object has no attribute {name!r}"
            )
        return super().get_attribute(evaluator, name)

    def set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        evaluator.capture.side_effects.new_object(self)
        evaluator.capture.side_effects.store_attribute(self, name, value)

    def call_method(
        self,
        evaluator: Evaluator,
        name: str,
        args: Sequence[VariableTracker],
        kwargs: dict[str, VariableTracker],
    ) -> VariableTracker:
        constant = all(argument.is_constant() for argument in self.arguments)
        if name in ("__str__", "__repr__") and not args and constant:
            exception = self.kind(*(argument.as_constant() for argument in self.arguments))
            return ConstantVariable(getattr(exception, name)())
        if name == "with_traceback" and len(args) == 1:
            return self
        return super().call_method(evaluator, name, args, kwargs)

    def reconstruct(self, residual: Residual) -> str:
        arguments = ", ".join(residual.name_for(argument) for argument in self.arguments)
        return f"{residual.reference(self.kind)}({arguments})"


class HandledBefore(VariableTracker):
    """The exception that was being handled when the captured frame was called, or None."""

    def reconstruct(self, residual: Residual) -> str:
        return f"{residual.reference(sys.exception)}()"


def exception_of(error: ObservedError) -> VariableTracker:
    """The exception object that the user's program raises."""
    if error.exception is None:
        arguments = [ConstantVariable(argument) for argument in error.arguments]
        error.exception = ExceptionVariable(error.kind, arguments)
    return error.exception
