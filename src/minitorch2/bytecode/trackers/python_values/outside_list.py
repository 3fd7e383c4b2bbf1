"""Lists from outside and lists of data: their elements are read, and guarded, only if needed.

A program that only appends to a log or a list of losses does not depend on how long it is already.
So the length of a list is guarded only when the program does more with it than append, or, of
``x.tolist()``, more than pass it on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from minitorch2.bytecode.guards.sources import Source
from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.python_values.sequence import ListVariable
from minitorch2.graph.node import Node

Elements: TypeAlias = list[VariableTracker]


class OutsideListVariable(ListVariable):
    """A list that `source` loads.

    Args:
        read: guards the length and gives the trackers of the elements.
    """

    def __init__(
        self, read: Callable[[], Elements], source: Source | None = None, **options: Any
    ) -> None:
        self._read = read
        self._contents: Elements | None = None
        self._appended: Elements = []
        super().__init__([], source=source, **options)
        self._contents = None

    @property
    def elements(self) -> Elements:
        """The elements, with those appended; from here on the length is guarded."""
        if self._contents is None:
            self._contents = [*self._read(), *self._appended]
        return self._contents

    @elements.setter
    def elements(self, elements: Elements) -> None:
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


class DataListVariable(OutsideListVariable):
    """``x.tolist()``; the residual code makes it, unless the program looks at its elements.

    Args:
        read: gives the trackers of the elements: numbers that only data will tell.
        node, length: a copy of the tensor, and the size of its first dimension.
    """

    def __init__(self, read: Callable[[], Elements], node: Node, length: VariableTracker) -> None:
        super().__init__(read)
        self.node, self.length = node, length

    py_append = ListVariable.py_append
    py_extend = ListVariable.py_extend
    mutation = ListVariable.mutation

    def py___len__(self, evaluator: Evaluator) -> VariableTracker:
        return self.length if self._contents is None else super().py___len__(evaluator)

    def is_constant(self) -> bool:
        return self._contents is not None and super().is_constant()

    def rebuild(self, residual: Residual) -> str:
        made = self._contents is not None
        return super().rebuild(residual) if made else f"{residual.graph_output(self.node)}.tolist()"
