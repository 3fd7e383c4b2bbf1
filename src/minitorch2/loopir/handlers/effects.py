"""The handler that returns None everywhere: a base for analyses of a body's effects."""

from __future__ import annotations

from collections.abc import Callable

import sympy
import torch

from minitorch2.loopir.expressions import Expr, index_symbol
from minitorch2.loopir.ops import Number, OpsHandler, ReductionKind, ScanKind, StoreMode

INDIRECT_PREFIX = "indirect"
"""Symbols of computed indices are called `indirect0`, `indirect1`, ..."""


class EffectHandler(OpsHandler[None]):
    """Every value is None. Subclasses override the primitives whose effect they look for."""

    def __init__(self) -> None:
        self.indirect: list[sympy.Symbol] = []

    def load(self, name: str, index: Expr) -> None:
        """Return no value."""

    def store(self, name: str, index: Expr, value: None, mode: StoreMode = "set") -> None:
        """Do nothing."""

    def reduction(
        self,
        dtype: torch.dtype,
        src_dtype: torch.dtype,
        kind: ReductionKind,
        value: tuple[None, None] | None,
    ) -> None:
        """Return no value."""

    def scan(self, dtype: torch.dtype, kind: ScanKind, value: None) -> None:
        """Return no value."""

    def store_reduction(self, name: str, index: Expr, value: None) -> None:
        """A reduction's store has the effect of any store."""
        self.store(name, index, value)

    def constant(self, value: Number, dtype: torch.dtype) -> None:
        """Return no value."""

    def index_expr(self, expr: Expr, dtype: torch.dtype) -> None:
        """Return no value."""

    def indirect_indexing(
        self, value: None, size: Expr, check: bool = True, wrap: bool = True
    ) -> Expr:
        """Return a fresh symbol."""
        self.indirect.append(index_symbol(f"{INDIRECT_PREFIX}{len(self.indirect)}"))
        return self.indirect[-1]

    def masked(self, mask: None, body: Callable[[], None], other: Number) -> None:
        """The effects of the body, which may happen."""
        body()

    def to_dtype(self, x: None, dtype: torch.dtype) -> None:
        """Return no value."""

    def to_dtype_bitcast(self, x: None, dtype: torch.dtype, src_dtype: torch.dtype) -> None:
        """Return no value."""

    def elementwise(self, name: str, *args: None) -> None:
        """Return no value."""
