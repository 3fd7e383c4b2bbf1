"""`collections.deque`: a list with two ends and, perhaps, a greatest length."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.observed import raise_observed
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable, register_literal
from minitorch2.bytecode.trackers.python_values.iterator import GuardedIterator
from minitorch2.bytecode.trackers.python_values.sequence import (
    ListVariable,
    SequenceVariable,
    as_index,
    literal_elements,
)

_MUTATED = "deque mutated during iteration"


class DequeVariable(ListVariable):
    """A `collections.deque`."""

    CLS = deque

    def __init__(
        self, elements: Sequence[VariableTracker], maxlen: int | None = None, **options: Any
    ) -> None:
        super().__init__(elements, **options)
        self.maxlen = maxlen

    def make(self, elements: Sequence[VariableTracker]) -> SequenceVariable:
        return DequeVariable(elements, self.maxlen)

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name == "maxlen":
            return ConstantVariable(self.maxlen)
        return super().get_attribute(evaluator, name)

    def index_of(self, evaluator: Evaluator, key: VariableTracker, use: str = "") -> Any:
        if key.python_type() is slice:
            raise_observed(TypeError, "sequence index must be integer, not 'slice'")
        return super().index_of(evaluator, key, use)

    def _trim(self, left: bool = False) -> None:
        if self.maxlen is not None and len(self.elements) > self.maxlen:
            extra = len(self.elements) - self.maxlen
            del self.elements[slice(-extra, None) if left else slice(extra)]

    def py___iter__(self, evaluator: Evaluator) -> VariableTracker:
        cls: type = type(iter(deque()))
        return GuardedIterator(self, self.realized()[:], lambda: self.elements, _MUTATED, cls)

    def py___reversed__(self, evaluator: Evaluator) -> VariableTracker:
        cls: type = type(reversed(deque()))
        return GuardedIterator(self, self.realized()[::-1], lambda: self.elements, _MUTATED, cls)

    def py_pop(self, evaluator: Evaluator) -> VariableTracker:  # type: ignore[override]
        return super().py_pop(evaluator)

    def py_append(self, evaluator: Evaluator, item: VariableTracker) -> None:
        super().py_append(evaluator, item)
        self._trim()

    def py_extend(self, evaluator: Evaluator, items: VariableTracker) -> None:
        super().py_extend(evaluator, items)
        self._trim()

    def py_insert(
        self, evaluator: Evaluator, index: VariableTracker, item: VariableTracker
    ) -> None:
        if self.maxlen is not None and len(self.elements) >= self.maxlen:
            raise_observed(IndexError, "deque already at its maximum size")
        super().py_insert(evaluator, index, item)

    def py___imul__(self, evaluator: Evaluator, times: VariableTracker) -> VariableTracker:
        super().py___imul__(evaluator, times)
        self._trim()
        return self

    def concatenated(self, elements: Sequence[VariableTracker]) -> VariableTracker:
        made = DequeVariable(elements, self.maxlen)
        made._trim()
        return made

    def py_appendleft(self, evaluator: Evaluator, item: VariableTracker) -> None:
        self.changed(evaluator).insert(0, item)
        self._trim(left=True)

    def py_extendleft(self, evaluator: Evaluator, items: VariableTracker) -> None:
        for item in operations.iterate(evaluator, items):
            self.py_appendleft(evaluator, item)

    def py_popleft(self, evaluator: Evaluator) -> VariableTracker:
        if not self.elements:
            raise_observed(IndexError, "pop from an empty deque")
        element = self.element(0)
        del self.changed(evaluator)[0]
        return element

    def py_rotate(self, evaluator: Evaluator, n: VariableTracker | None = None) -> None:
        rotated = deque(self.elements)
        rotated.rotate(1 if n is None else as_index(evaluator, n))
        self.changed(evaluator)[:] = rotated

    def rebuild(self, residual: Residual) -> str:
        cls = residual.reference(deque)
        return f"{cls}([{self.names(residual)}], {self.maxlen})"

    def mutation(self, residual: Residual, name: str) -> list[str]:
        contents = residual.bind(f"[{self.names(residual)}]", "contents")
        return [f"{name}.clear()", f"{name}.extend({contents})"]


register_literal(deque, literal_elements(DequeVariable))
