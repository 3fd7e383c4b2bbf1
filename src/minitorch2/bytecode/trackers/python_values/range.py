"""Ranges of constants."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.python_values.constant import (
    NOT_IMPLEMENTED,
    ConstantVariable,
    literal,
    register_literal,
)
from minitorch2.bytecode.trackers.python_values.iterator import SequenceIterator
from minitorch2.bytecode.trackers.python_values.sequence import ListVariable, SequenceVariable
from minitorch2.bytecode.trackers.torch_values.symbolic import SymbolicNumberVariable
from minitorch2.graph.node import Argument


class RangeVariable(SequenceVariable):
    """A range of constants."""

    CLS, empty = range, range(0)

    def __init__(self, value: range, **options: Any) -> None:
        super().__init__([ConstantVariable(i) for i in value], **options)
        self.range = value

    def make(self, elements: Sequence[VariableTracker]) -> SequenceVariable:
        return ListVariable(elements)

    def is_constant(self) -> bool:
        return True

    def as_constant(self) -> Any:
        return self.range

    def as_argument(self) -> Argument:
        return self.range  # no list: PyTorch takes no range for a size

    def hash_key(self) -> Hashable:
        return ("constant", self.range)

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name in ("start", "stop", "step"):
            return ConstantVariable(getattr(self.range, name))
        return super().get_attribute(evaluator, name)

    def py___reversed__(self, evaluator: Evaluator) -> VariableTracker:
        return SequenceIterator(RangeVariable(self.range[::-1]))

    def py___getitem__(self, evaluator: Evaluator, key: VariableTracker) -> VariableTracker:
        return literal(self.range[self.index_of(evaluator, key)])

    def py___contains__(self, evaluator: Evaluator, item: VariableTracker) -> VariableTracker:
        """``item in range``; of a symbolic integer without a guard for each element."""
        if not isinstance(item, SymbolicNumberVariable) or not item.is_varying_int():
            return super().py___contains__(evaluator, item)
        number: Any = item.number
        members = self.range if self.range.step > 0 else self.range[::-1]
        inside = members.start <= number and number < members.stop
        return ConstantVariable(bool(inside and (number - members.start) % members.step == 0))

    def compare(self, evaluator: Evaluator, other: VariableTracker, symbol: str) -> VariableTracker:
        if not isinstance(other, RangeVariable) or symbol not in ("==", "!="):
            return NOT_IMPLEMENTED
        return ConstantVariable((self.range == other.range) == (symbol == "=="))

    def reconstruct(self, residual: Residual) -> str:
        return repr(self.range)


register_literal(range, RangeVariable)
