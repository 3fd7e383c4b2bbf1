"""Values that residual code computes, of which nothing is known while capturing."""

from __future__ import annotations

from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Residual


class ResidualVariable(VariableTracker):
    """The outcome of the instruction at a graph break: a local variable of the residual code."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def reconstruct(self, residual: Residual) -> str:
        return self.name
