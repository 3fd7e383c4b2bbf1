"""The `id` of an object: a number that is known only when the program runs.

Two of them are equal if they are of one object. So they can be compared, and be keys.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from minitorch2.bytecode import operations
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.python_values.constant import NOT_IMPLEMENTED, ConstantVariable

if TYPE_CHECKING:
    from minitorch2.bytecode.evaluator import Evaluator
    from minitorch2.bytecode.residual import Residual


class IdentityVariable(VariableTracker):
    """``id(owner)``"""

    def __init__(self, owner: VariableTracker) -> None:
        super().__init__()
        self.owner = owner

    def python_type(self) -> type:
        return int

    def truth(self, evaluator: Evaluator) -> bool:
        return True

    def hash_key(self) -> Hashable:
        self.owner.is_key = True
        return ("id", id(self.owner))

    def call_method(
        self,
        evaluator: Evaluator,
        name: str,
        args: Sequence[VariableTracker],
        kwargs: dict[str, VariableTracker],
    ) -> VariableTracker:
        other = args[0] if args else None
        if name in ("__eq__", "__ne__") and isinstance(other, IdentityVariable):
            is_same = operations.identical(evaluator, self.owner, other.owner)
            return ConstantVariable(is_same == (name == "__eq__"))
        if name in ("__eq__", "__ne__") and other is not None and other.python_type() is not int:
            return NOT_IMPLEMENTED
        return unsupported("identity", f"the id of {self.owner} is not known while capturing")

    def reconstruct(self, residual: Residual) -> str:
        return f"{residual.reference(id)}({residual.name_for(self.owner)})"
