"""The handler that records which addresses a loop body reads and writes."""

from __future__ import annotations

from minitorch2.loopir.expressions import Expr
from minitorch2.loopir.handlers.effects import EffectHandler
from minitorch2.loopir.ops import StoreMode


class RecordingHandler(EffectHandler):
    """The recorder; `reads` and `writes` are ordered sets of (buffer name, address) pairs.

    A read inside of a masked body counts as a read.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reads: dict[tuple[str, Expr], None] = {}
        self.writes: dict[tuple[str, Expr], None] = {}

    def load(self, name: str, index: Expr) -> None:
        """Record a read."""
        self.reads[name, index] = None

    def store(self, name: str, index: Expr, value: None, mode: StoreMode = "set") -> None:
        """Record a write."""
        self.writes[name, index] = None
