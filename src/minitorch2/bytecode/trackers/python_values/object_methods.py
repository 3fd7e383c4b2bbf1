"""The methods of `object` itself on instances of user-defined classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import class_lookup, inherits
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.observed import raise_observed
from minitorch2.bytecode.trackers.python_values.constant import NOT_IMPLEMENTED, ConstantVariable

if TYPE_CHECKING:
    from minitorch2.bytecode.trackers.python_values.objects import ObjectVariable


def _init(owner: ObjectVariable, evaluator: Evaluator, *args: VariableTracker, **kw: Any) -> None:
    if (args or kw) and class_lookup(owner.cls, "__new__")[0] is object:
        raise_observed(TypeError, f"{owner.cls.__name__}() takes no arguments")


def _eq(owner: ObjectVariable, evaluator: Evaluator, other: VariableTracker) -> VariableTracker:
    same = operations.identical(evaluator, owner, other)
    return ConstantVariable(True) if same else NOT_IMPLEMENTED


def _ne(owner: ObjectVariable, evaluator: Evaluator, other: VariableTracker) -> VariableTracker:
    result = operations.special(evaluator, owner, "__eq__", other)
    if result is None:
        return NOT_IMPLEMENTED
    return ConstantVariable(not operations.truth(evaluator, result))


def _text(owner: ObjectVariable, evaluator: Evaluator) -> VariableTracker:
    if not inherits(owner.cls, "__repr__"):
        return owner.call_method(evaluator, "__repr__", [], {})
    return unsupported("identity", "the default text of an object shows its address")


def _format(owner: ObjectVariable, evaluator: Evaluator, spec: VariableTracker) -> VariableTracker:
    if spec.is_constant() and spec.as_constant():
        message = f"unsupported format string passed to {owner.cls.__name__}.__format__"
        raise_observed(TypeError, message)
    return owner.call_method(evaluator, "__str__", [], {})


def _nothing(owner: ObjectVariable, evaluator: Evaluator, **kwargs: VariableTracker) -> None:
    """``object.__init_subclass__`` and its like have no effect."""


OBJECT_METHODS: Final[dict[str, Any]] = {
    "__init__": _init,
    "__setattr__": lambda owner, evaluator, name, value: owner.plain_set_attribute(
        evaluator, name.as_constant(), value
    ),
    "__delattr__": lambda owner, evaluator, name: owner.plain_delete_attribute(
        evaluator, name.as_constant()
    ),
    "__getattribute__": lambda owner, evaluator, name: owner.plain_attribute(
        evaluator, name.as_constant()
    ),
    "__eq__": _eq,
    "__ne__": _ne,
    **dict.fromkeys(("__lt__", "__le__", "__gt__", "__ge__"), lambda *operands: NOT_IMPLEMENTED),
    "__str__": _text,
    "__format__": _format,
    "__init_subclass__": _nothing,
}
"""Method name to its model: (instance, evaluator, *args) -> outcome, None for None."""
