"""`itertools.count` and `enumerate`, made by the captured code or outside of it.

One that comes from outside takes, after the graph, the steps that the program took.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, ClassVar, Final

from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable
from minitorch2.bytecode.trackers.python_values.iterator import IteratorVariable, advance, step
from minitorch2.bytecode.trackers.python_values.outside_iterator import OutsideIterator
from minitorch2.bytecode.trackers.python_values.sequence import TupleVariable

ONE: Final = ConstantVariable(1)


class CountVariable(IteratorVariable):
    """``itertools.count(number, difference)``; `number` is the one that it gives next."""

    CLS: ClassVar[type] = count

    def __init__(
        self, number: VariableTracker, difference: VariableTracker = ONE, **options: Any
    ) -> None:
        super().__init__(**options)
        self.number, self.difference, self.taken = number, difference, 0

    def python_type(self) -> type:
        return self.CLS

    def next(self, evaluator: Evaluator) -> VariableTracker:
        self._take(evaluator)
        return self._count(evaluator)

    def _take(self, evaluator: Evaluator) -> None:
        self.taken += 1
        if self.source is not None:
            self.record_change(evaluator)

    def _count(self, evaluator: Evaluator) -> VariableTracker:
        given = self.number
        self.number = operations.binary(evaluator, "+", given, self.difference)
        return given

    def mutation(self, residual: Residual, name: str) -> list[str]:
        return [f"{residual.reference(advance)}({name}, {self.taken})"]

    def rebuild(self, residual: Residual) -> str:
        names = residual.name_for(self.number), residual.name_for(self.difference)
        return f"{residual.reference(count)}({', '.join(names)})"


class EnumerateVariable(CountVariable):
    """``enumerate(iterator, number)``.

    Args:
        number: the number that it gives next.
        iterator: the iterator that it counts.
        stepped: iterators from outside that it steps, if it is from outside itself.
    """

    CLS = enumerate

    def __init__(
        self,
        number: VariableTracker,
        iterator: VariableTracker,
        stepped: Sequence[OutsideIterator] = (),
        **options: Any,
    ) -> None:
        super().__init__(number, **options)
        self.iterator, self.stepping = iterator, False
        for each in stepped:
            each.drive(self)

    def next(self, evaluator: Evaluator) -> VariableTracker:
        self._take(evaluator)
        self.stepping = True
        try:
            element = step(evaluator, self.iterator)
        finally:
            self.stepping = False
        return TupleVariable([self._count(evaluator), element])

    def rebuild(self, residual: Residual) -> str:
        names = residual.name_for(self.iterator), residual.name_for(self.number)
        return f"{residual.reference(enumerate)}({', '.join(names)})"
