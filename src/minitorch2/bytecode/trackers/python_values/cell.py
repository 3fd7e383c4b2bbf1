"""Cells: the boxes through which closures share variables.

PyTorch 2 paper, section 3.6 tells three cases. A cell from outside has a source, through which it
is read and written. A cell made and dropped inside the captured region costs nothing. A cell that
escapes is made at the very end, in residual code.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CellType
from typing import TYPE_CHECKING

from minitorch2.bytecode.observed import raise_observed
from minitorch2.bytecode.trackers.base import VariableTracker

if TYPE_CHECKING:
    from minitorch2.bytecode.evaluator import Evaluator
    from minitorch2.bytecode.residual import Residual
    from minitorch2.bytecode.sources import Source


class CellVariable(VariableTracker):
    """A cell, new or from outside.

    Args:
        name: the variable's name, for messages and for readable residual code.
        source: source of the cell object, None for a cell that the captured code makes.
        initial: wraps the contents that a cell from outside has; called at the first read only.
    """

    def __init__(
        self,
        name: str,
        source: Source | None = None,
        initial: Callable[[], VariableTracker | None] | None = None,
    ) -> None:
        super().__init__(source=source)
        self.name = name
        self._initial = initial
        self._contents: VariableTracker | None = None

    @property
    def contents(self) -> VariableTracker | None:
        """The tracker of the cell's contents, pending writes included; None while it is empty."""
        if self._initial is not None:
            self.contents = self._initial()
        return self._contents

    @contents.setter
    def contents(self, value: VariableTracker | None) -> None:
        self._initial = None
        self._contents = value

    def python_type(self) -> type:
        return CellType

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name != "cell_contents":
            return super().get_attribute(evaluator, name)
        return self.contents or raise_observed(ValueError, "Cell is empty")

    def set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        if name != "cell_contents":
            super().set_attribute(evaluator, name, value)
        evaluator.capture.side_effects.store_cell(self, value)

    def reconstruct(self, residual: Residual) -> str:
        """Return the cell object: the existing one, or a new one that `SideEffects` fills."""
        if self.source is not None:
            return residual.load(self.source)
        return f"{residual.reference(CellType, 'CellType')}()"
