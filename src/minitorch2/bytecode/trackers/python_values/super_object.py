"""``super``: attributes that are found behind a class in the method resolution order."""

from __future__ import annotations

from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import (
    MISSING,
    bind,
    class_attribute,
    class_tracker,
    guard_absent,
)
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.lazy import realize
from minitorch2.bytecode.trackers.observed import raise_observed
from minitorch2.bytecode.trackers.python_values.classes import ClassVariable, constructs


class SuperVariable(VariableTracker):
    """``super(start, owner)``."""

    def __init__(
        self, start: type, owner: VariableTracker, owner_type: type, through_class: bool
    ) -> None:
        super().__init__()
        self.start, self.owner = start, owner
        self.owner_type, self.through_class = owner_type, through_class

    def python_type(self) -> type:
        return super

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name in ("__class__", "__thisclass__", "__self_class__"):
            shown = {"__class__": super, "__thisclass__": self.start}
            return class_tracker(evaluator, shown.get(name, self.owner_type))
        if name == "__self__":
            return self.owner
        found_in, raw = class_attribute(evaluator, self.owner_type, name, after=self.start)
        if raw is MISSING:
            order = self.owner_type.__mro__
            for base in order[order.index(self.start) + 1 : -1]:  # nobody changes `object`
                guard_absent(evaluator, base, name)
            raise_observed(AttributeError, f"'super' object has no attribute {name!r}")
        owner = None if self.through_class else self.owner
        return bind(evaluator, owner, self.owner_type, found_in, name, raw)

    def reconstruct(self, residual: Residual) -> str:
        start = residual.reference(self.start)
        return f"super({start}, {residual.name_for(self.owner)})"


@constructs(super)
def make_super(
    evaluator: Evaluator, start: VariableTracker | None = None, owner: VariableTracker | None = None
) -> VariableTracker:
    """``super()`` finds its class in the cell ``__class__``, its owner in the first parameter."""
    if start is None:
        cell = evaluator.cells.get("__class__")
        if cell is None or not evaluator.code.co_argcount:
            raise_observed(RuntimeError, "super(): no arguments")
        start, owner = cell.contents, _first_parameter(evaluator)
        if start is None:
            raise_observed(RuntimeError, "super(): empty __class__ cell")
    if owner is None or not isinstance(start, ClassVariable):
        unsupported("super", "super with one argument")
    if isinstance(owner, ClassVariable) and issubclass(owner.value, start.value):
        return SuperVariable(start.value, owner, owner.value, through_class=True)
    return SuperVariable(start.value, owner, owner.python_type(), through_class=False)


def _first_parameter(evaluator: Evaluator) -> VariableTracker:
    name = evaluator.code.co_varnames[0]
    cell = evaluator.cells.get(name)
    found = evaluator.locals.get(name) if cell is None else cell.contents
    if found is None:
        raise_observed(RuntimeError, "super(): arg[0] deleted")
    return realize(found)
