"""The handler that records which addresses a loop body reads and writes."""

from __future__ import annotations

from collections.abc import Callable

import torch

from minitorch2.loopir.expressions import Expr, index_symbol
from minitorch2.loopir.ops import Number, OpsHandler, ReductionKind

INDIRECT_PREFIX = "indirect"


class RecordingHandler(OpsHandler[None]):
    """Values are None: only addresses matter. The dictionaries are used as ordered sets."""

    def __init__(self) -> None:
        self.reads: dict[tuple[str, Expr], None] = {}
        self.writes: dict[tuple[str, Expr], None] = {}
        self._indirect = 0

    def load(self, name: str, index: Expr) -> None:
        """Record a read."""
        self.reads[name, index] = None

    def store(self, name: str, index: Expr, value: None) -> None:
        """Record a write."""
        self.writes[name, index] = None

    def store_reduction(self, name: str, index: Expr, value: None) -> None:
        """Record a write."""
        self.writes[name, index] = None

    def reduction(
        self,
        dtype: torch.dtype,
        src_dtype: torch.dtype,
        kind: ReductionKind,
        value: tuple[None, None] | None,
    ) -> None:
        """Accesses nothing."""

    def constant(self, value: Number, dtype: torch.dtype) -> None:
        """Accesses nothing."""

    def index_expr(self, expr: Expr, dtype: torch.dtype) -> None:
        """Accesses nothing."""

    def indirect_indexing(self, value: None, size: Expr, check: bool = True) -> Expr:
        """A fresh symbol: `indirect0`, `indirect1`, ..."""
        self._indirect += 1
        return index_symbol(f"{INDIRECT_PREFIX}{self._indirect - 1}")

    def masked(self, mask: None, body: Callable[[], None], other: Number) -> None:
        """What the body may read counts as read."""
        body()

    def to_dtype(self, x: None, dtype: torch.dtype) -> None:
        """Accesses nothing."""

    def to_dtype_bitcast(self, x: None, dtype: torch.dtype, src_dtype: torch.dtype) -> None:
        """Accesses nothing."""

    def elementwise(self, name: str, *args: None) -> None:
        """Accesses nothing."""
