"""One of some values, by an index that was drawn at random: which one is not known while capturing.

A number is a symbol; anything else can be passed on, and keeps its identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from minitorch2.bytecode.drawing import SelectedSource
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.opaque import OpaqueVariable
from minitorch2.bytecode.trackers.torch_values.symbolic import from_number
from minitorch2.graph.symbols.ranges import ANY, Range

if TYPE_CHECKING:
    from minitorch2.bytecode.evaluator import Evaluator
    from minitorch2.bytecode.residual import Residual
    from minitorch2.bytecode.sources import Source


def selected(
    evaluator: Evaluator, elements: Sequence[VariableTracker], index: Source
) -> VariableTracker:
    """``elements[index]``, for an index that residual code knows."""
    if len(elements) == 1:
        return elements[0]
    values: list[Any] = [
        element.as_constant() if element.is_constant() else None for element in elements
    ]
    capture = evaluator.capture
    if all(type(value) is int and abs(value) < _WORD for value in values):
        known = Range(min(values), max(values))
        source = index if values == [*range(len(values))] else SelectedSource(index, tuple(values))
        return from_number(capture.drawn_number(source, values[0], known))
    if all(type(value) is float for value in values):
        return from_number(capture.drawn_number(SelectedSource(index, tuple(values)), 0.5, ANY))
    return SelectedVariable(elements, index)


_WORD = 2**62


class SelectedVariable(OpaqueVariable):
    """One of some values, to be passed on.

    Args:
        elements: the values.
        index: loads which of them it is.
    """

    def __init__(self, elements: Sequence[VariableTracker], index: Source) -> None:
        super().__init__(object)
        self.elements, self.index = list(elements), index

    def python_type(self) -> type:
        kinds = {element.python_type() for element in self.elements}
        return self.refuse() if len(kinds) > 1 else kinds.pop()

    def refuse(self) -> NoReturn:
        unsupported("random-state", "the program needs to know what was chosen at random")

    def as_constant(self) -> NoReturn:
        self.refuse()

    def as_argument(self) -> NoReturn:
        self.refuse()

    def call(self, *_: object) -> NoReturn:
        self.refuse()

    def items(self, evaluator: Evaluator) -> list[VariableTracker]:
        return self.refuse()

    def truth(self, evaluator: Evaluator) -> bool:
        return self.refuse()

    def reconstruct(self, residual: Residual) -> str:
        names = ", ".join(residual.name_for(element) for element in self.elements)
        return f"({names},)[{residual.load(self.index)}]"
