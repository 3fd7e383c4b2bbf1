"""Items of the evaluation stack that are not values, or of which nothing is known."""

from __future__ import annotations

from typing import Final

from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Residual


class NullVariable(VariableTracker):
    """The NULL that CPython keeps below the arguments of a call without a bound ``self``."""

    def __repr__(self) -> str:
        return "NULL"


NULL: Final = NullVariable()


class ResidualVariable(VariableTracker):
    """The outcome of the instruction at a graph break: a local variable of the residual code."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def reconstruct(self, residual: Residual) -> str:
        return self.name
