"""The handler that measures a loop body: is it cheap enough to be recomputed by every reader?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from minitorch2.loopir.expressions import Expr, index_symbol, index_symbols
from minitorch2.loopir.loops import Pointwise
from minitorch2.loopir.ops import Number, OpsHandler, ReductionKind, use_handler

EXPENSIVE = frozenset(
    ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "sin", "cos", "tan", "asin",
     "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc",
     "lgamma", "sigmoid")
)  # fmt: skip
"""Primitives that cost many instructions: polynomials of ten terms and more."""

FREE = frozenset(("constant", "index_expr", "load", "to_dtype", "to_dtype_bitcast"))
"""Primitives that count as no arithmetic."""


@dataclass
class BodyCost:
    """What one execution of a body does, repeats included (a code generator may share some)."""

    operations: int = 0
    flops: int = 0
    expensive: int = 0
    reads: set[tuple[str, Expr]] = field(default_factory=set)
    """Distinct addresses."""

    @property
    def buffers(self) -> set[str]:
        """The names of the buffers that are read."""
        return {name for name, _ in self.reads}


class CountingHandler(OpsHandler[None]):
    """Values are None; `cost` grows with each primitive."""

    def __init__(self) -> None:
        self.cost = BodyCost()
        self._indirect = 0

    def _count(self, name: str) -> None:
        self.cost.operations += 1
        self.cost.flops += name not in FREE
        self.cost.expensive += name in EXPENSIVE

    def load(self, name: str, index: Expr) -> None:
        """One operation, one address."""
        self._count("load")
        self.cost.reads.add((name, index))

    def store(self, name: str, index: Expr, value: None) -> None:
        """Not counted: each body has exactly one."""

    def store_reduction(self, name: str, index: Expr, value: None) -> None:
        """Not counted: each body has exactly one."""

    def reduction(
        self,
        dtype: torch.dtype,
        src_dtype: torch.dtype,
        kind: ReductionKind,
        value: tuple[None, None] | None,
    ) -> None:
        """One operation per element."""
        self._count(kind)

    def constant(self, value: Number, dtype: torch.dtype) -> None:
        """Free: it is part of an instruction."""

    def index_expr(self, expr: Expr, dtype: torch.dtype) -> None:
        """One operation."""
        self._count("index_expr")

    def indirect_indexing(self, value: None, size: Expr, check: bool = True) -> Expr:
        """One operation; a fresh symbol."""
        self._count("indirect_indexing")
        self._indirect += 1
        return index_symbol(f"indirect{self._indirect - 1}")

    def masked(self, mask: None, body: Callable[[], None], other: Number) -> None:
        """One operation and what the body does."""
        self._count("masked")
        body()

    def to_dtype(self, x: None, dtype: torch.dtype) -> None:
        """One operation."""
        self._count("to_dtype")

    def to_dtype_bitcast(self, x: None, dtype: torch.dtype, src_dtype: torch.dtype) -> None:
        """One operation."""
        self._count("to_dtype_bitcast")

    def elementwise(self, name: str, *args: None) -> None:
        """One operation."""
        self._count(name)


def body_cost(loops: Pointwise) -> BodyCost:
    """What computing one element takes."""
    counter = CountingHandler()
    with use_handler(counter):
        loops.inner_fn(index_symbols("i", len(loops.ranges)))
    return counter.cost
