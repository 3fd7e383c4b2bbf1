"""Attributes of tensors as functions: ``torch.Tensor.shape.__get__`` and its like.

If the program reads ``x.shape``, overrides get such a function as the one that is called.
"""

from __future__ import annotations

from collections.abc import Hashable
from types import GetSetDescriptorType, MethodWrapperType
from typing import Any, Final

from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.known import KnownObjectVariable
from minitorch2.bytecode.trackers.python_values.constant import NONE, literal

_ACCESSORS: Final = ("__get__", "__set__", "__delete__")


class AttributeVariable(KnownObjectVariable):
    """An attribute that C code computes, as a class holds it: ``torch.Tensor.shape``."""

    value: GetSetDescriptorType

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        value = self.real_attribute(name)
        if name in _ACCESSORS:
            return AccessorVariable(value)
        if isinstance(value, type):
            return evaluator.capture.wrap(value, evaluator.capture.reference(value))
        return literal(value)

    def reconstruct(self, residual: Residual) -> str:
        return residual.reference(self.value, self.value.__name__)


class AccessorVariable(KnownObjectVariable):
    """The reader, writer or deleter of such an attribute; each mention makes a new one."""

    value: MethodWrapperType

    def __init__(self, value: MethodWrapperType, **options: Any) -> None:
        super().__init__(_SAME.setdefault(value, value), **options)

    def hash_key(self) -> Hashable:
        return ("accessor", self.value)

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name == "__self__":
            return AttributeVariable(self.value.__self__)
        return literal(self.real_attribute(name))

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        attribute: Any = self.value.__self__
        owner, name = args[0], attribute.__name__
        read: Any = getattr(owner, "read_inherited", owner.get_attribute)
        if self.value.__name__ == "__get__":
            return read(evaluator, name)  # type: ignore[no-any-return]
        if self.value.__name__ == "__set__":
            owner.set_attribute(evaluator, name, args[1])
            return NONE
        return unsupported("attribute-delete", f"deletion of the attribute {name!r} of a tensor")

    def reconstruct(self, residual: Residual) -> str:
        return residual.reference(self.value, "accessor")


_SAME: Final[dict[MethodWrapperType, MethodWrapperType]] = {}
"""One object for all that are equal, so that a program can ask which it has."""
