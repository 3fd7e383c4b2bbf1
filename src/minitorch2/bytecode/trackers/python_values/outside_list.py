"""Lists that come from outside: their elements are read, and guarded, only if needed.

A program that only appends to a log or a list of losses does not depend on how long it is already.
So the length of a list is guarded only when the program does more with it than append.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minitorch2.bytecode.guards import Guard
from minitorch2.bytecode.guards.sources import Source
from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.python_values.sequence import ListVariable


class OutsideListVariable(ListVariable):
    """A list that `source` loads.

    Args:
        read: guards the length and gives the trackers of the elements.
    """

    def __init__(
        self, read: Callable[[], list[VariableTracker]], source: Source, guards: frozenset[Guard]
    ) -> None:
        self._read = read
        self._contents: list[VariableTracker] | None = None
        self._appended: list[VariableTracker] = []
        super().__init__([], source=source, guards=guards)
        self._contents = None

    @property
    def elements(self) -> list[VariableTracker]:
        """The elements, with those appended; from here on the length is guarded."""
        if self._contents is None:
            self._contents = [*self._read(), *self._appended]
        return self._contents

    @elements.setter
    def elements(self, elements: list[VariableTracker]) -> None:
        self._contents = elements

    def __repr__(self) -> str:
        return f"OutsideListVariable(source={self.source})"

    def make(self, elements: Sequence[VariableTracker]) -> ListVariable:
        return ListVariable(elements)

    def py_append(self, evaluator: Evaluator, item: VariableTracker) -> None:
        self._append(evaluator, [item])

    def py_extend(self, evaluator: Evaluator, items: VariableTracker) -> None:
        self._append(evaluator, list(operations.iterate(evaluator, items)))

    def _append(self, evaluator: Evaluator, items: list[VariableTracker]) -> None:
        self.record_change(evaluator)
        (self._appended if self._contents is None else self._contents).extend(items)

    def mutation(self, residual: Residual, name: str) -> list[str]:
        if self._contents is not None:
            return super().mutation(residual, name)
        appended = ", ".join(residual.name_for(item) for item in self._appended)
        return [f"{name}.extend([{appended}])"]
