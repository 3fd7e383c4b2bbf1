"""The handler that measures a loop body: is it cheap enough to be recomputed by every reader?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import sympy

from minitorch2.loopir.expressions import Expr, index_symbols
from minitorch2.loopir.handlers.effects import EffectHandler
from minitorch2.loopir.loops import Pointwise
from minitorch2.loopir.ops import Number, use_handler

EXPENSIVE = frozenset(
    ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "sin", "cos", "tan", "asin",
     "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc",
     "lgamma", "sigmoid")
)  # fmt: skip
"""Primitives that cost many instructions: polynomials of ten terms and more."""


@dataclass
class BodyCost:
    """The operations and reads of one execution of a body, repeats included.

    A code generator may share some of them.
    """

    operations: int = 0
    expensive: int = 0
    reads: set[tuple[str, Expr]] = field(default_factory=set)
    """Distinct addresses."""

    @property
    def buffers(self) -> set[str]:
        """The names of the buffers that are read."""
        return {name for name, _ in self.reads}

    def large_loads(self, ranges: Sequence[Expr]) -> int:
        """Return the number of addresses that vary along every dimension."""
        pairs = zip(index_symbols("i", len(ranges)), ranges, strict=True)
        varying = {symbol for symbol, size in pairs if size != 1}
        return sum(varying <= sympy.sympify(index).free_symbols for _, index in self.reads)


class CountingHandler(EffectHandler):
    """`cost` grows with each primitive. Constants and the body's one store are free."""

    def __init__(self) -> None:
        super().__init__()
        self.cost = BodyCost()

    def note(self, primitive: str) -> None:
        """Count one operation."""
        self.cost.operations += primitive not in ("constant", "store")

    def load(self, name: str, index: Expr) -> None:
        """Count one operation and one address."""
        self.note("load")
        self.cost.reads.add((name, index))

    def indirect_indexing(
        self, value: None, size: Expr, check: bool = True, wrap: bool = True
    ) -> Expr:
        """Count one operation; return a fresh symbol."""
        self.note("indirect_indexing")
        return super().indirect_indexing(value, size, check, wrap)

    def masked(self, mask: None, body: Callable[[], None], other: Number) -> None:
        """Count one operation and the operations of the body."""
        self.note("masked")
        body()

    def elementwise(self, name: str, *args: None) -> None:
        """Count one operation, which may be an expensive one."""
        self.note(name)
        self.cost.expensive += name in EXPENSIVE


def body_cost(loops: Pointwise) -> BodyCost:
    """Return the cost of computing one element."""
    counter = CountingHandler()
    with use_handler(counter):
        loops.inner_fn(index_symbols("i", len(loops.ranges)))
    return counter.cost
