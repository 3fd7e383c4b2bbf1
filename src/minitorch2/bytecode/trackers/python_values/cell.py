"""Cells: the boxes through which closures share variables.

PyTorch 2 paper, section 3.6 tells three cases. A cell from outside has a source, through which it
is read and written. A cell made and dropped inside the captured region costs nothing. A cell that
escapes is made at the very end, in residual code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import CellType

from minitorch2.bytecode.guards.sources import Source
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.observed import raise_observed
from minitorch2.bytecode.trackers.side_effects import Effect, SideEffects


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

    def begin(self, side_effects: SideEffects) -> None:
        """Note that the captured code makes the cell, which gets its contents when it is made."""
        side_effects.new_object(self)
        side_effects.begin(("cell", id(self)), CellEffect(self))

    def store(self, side_effects: SideEffects, value: VariableTracker | None) -> None:
        """Assign to the closure variable; None deletes it."""
        self.contents = value
        side_effects.change(("cell", id(self)), CellEffect(self))

    def python_type(self) -> type:
        return CellType

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name != "cell_contents":
            return super().get_attribute(evaluator, name)
        return self.contents or raise_observed(ValueError, "Cell is empty")

    def set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        if name != "cell_contents":
            super().set_attribute(evaluator, name, value)
        self.store(evaluator.capture.side_effects, value)

    def rebuild(self, residual: Residual) -> str:
        """Return the cell object: the existing one, or a new one that `SideEffects` fills."""
        return f"{residual.reference(CellType, 'CellType')}()"


@dataclass
class CellEffect(Effect):
    """A write to a closure's cell; None as contents empties it."""

    cell: CellVariable

    def variable_name(self) -> str:
        return self.cell.name

    def owner(self) -> VariableTracker:
        return self.cell

    def value(self) -> VariableTracker | None:
        return self.cell.contents

    def emit(self, residual: Residual) -> None:
        place = f"{residual.name_for(self.cell)}.cell_contents"
        if self.cell.contents is None:
            if self.cell.source is not None:
                residual.emit(f"del {place}")
        else:
            residual.emit(f"{place} = {residual.name_for(self.cell.contents)}")
