"""Sums that need a reduction's result, computed in the pass that finds this result.

A row that does not fit into a block would be read once for its maximum, and again for the sum of
exponentials that needs it. But a running sum can follow a running maximum: when the maximum grows
from m to n, the sum so far is multiplied by `exp(m - n)`. This is online softmax (Milakov and
Gimelshein, "Online normalizer calculation for softmax", 2018). So can the sum of squared
differences from a mean follow the running sum (Youngs and Cramer, 1971). The pairs are found by the
expressions of loop bodies, whatever operator they come from. So softmax, its logarithm, norms and
code that users write are only two cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from minitorch2.loopir.expressions import Expr, index_symbols
from minitorch2.loopir.handlers.effects import INDIRECT_PREFIX
from minitorch2.loopir.loops import Index
from minitorch2.loopir.ops import (
    Number,
    OpsHandler,
    ReductionKind,
    ScanKind,
    StoreMode,
    compute_dtype,
    use_handler,
)
from minitorch2.loopir.schedule import SchedulerNode

Tree = tuple[object, ...]
"""What a value is computed by: an operator's name, then its operands."""
Place = Callable[[SchedulerNode], tuple[Index, Index]]


@dataclass(frozen=True)
class Follower:
    """A sum of exponentials of differences from a maximum, or of squared differences from a mean,
    which is the leading sum over `count`."""

    node: SchedulerNode
    count: Number | Expr | None = None


def online_sums(nodes: Sequence[SchedulerNode]) -> dict[str, Follower]:
    """Return the sum that can follow a maximum or sum of a kernel, by the name of the latter."""
    trees = Trees(nodes)
    found: dict[str, Follower] = {}
    for position, node in enumerate(nodes):
        leader, count = _subtracted(trees.of(node)) if node.is_reduction else (None, None)
        equal = (other for other in nodes[:position] if other.is_reduction)
        first = next((other for other in equal if leader and trees.of(other) == leader), None)
        if first is not None:  # an equal one behind the sum is too late to lead it
            found.setdefault(first.name, Follower(node, count))
    return found


def _subtracted(tree: Tree) -> tuple[Tree | None, Any]:
    """Return the maximum or the sum of x, if the tree is the sum of `exp(x - max(x))` or of
    `(x - sum(x) / n) ** 2`; then n, too."""
    match tree:
        case ("sum", ("exp", ("sub", x, ("max", y)))) if x == y:
            return ("max", y), None
        case ("sum", ("mul", ("sub", x, ("truediv", ("sum", y), (kind, n, _))) as one, other)):
            if x == y and one == other and kind in ("constant", "index"):
                return ("sum", y), n
    return None, None


def _symbols(node: SchedulerNode) -> tuple[Index, Index]:
    symbols = index_symbols("c", len(node.sizes))
    return symbols[: len(node.ranges)], symbols[len(node.ranges) :]


class Trees(OpsHandler[Tree]):
    """The handler that represents values as trees.

    A value that one body of the kernel stores and another loads has the same tree, rounded as
    memory rounds it. Bodies run at the index and the reduction index that `place` gives.
    """

    def __init__(self, nodes: Sequence[SchedulerNode], place: Place | None = None) -> None:
        self._stored: dict[str, tuple[Expr, Tree]] = {}
        self._dtypes = {node.name: node.buffer.dtype for node in nodes}
        self._indirect: dict[object, int] = {}
        for node in nodes:
            with use_handler(self):
                node.run(*(place or _symbols)(node))

    def of(self, node: SchedulerNode) -> Tree:
        """Return the tree of the value that a body stores."""
        return self._stored[node.name][1]

    def load(self, name: str, index: Expr) -> Tree:
        """Return the tree of the value stored there, or of a load if that is unknown."""
        stored, tree = self._stored.get(name, (None, ()))
        if stored != index:
            return "load", name, index
        dtype = self._dtypes[name]
        return tree if compute_dtype(dtype) == dtype else ("to_dtype", dtype, tree)

    def store(self, name: str, index: Expr, value: Tree, mode: StoreMode = "set") -> None:
        """Remember the value."""
        self._stored[name] = index, value

    store_reduction = store

    def reduction(
        self, dtype: torch.dtype, src_dtype: torch.dtype, kind: ReductionKind, value: object
    ) -> Tree:
        """Represent a reduction by its kind."""
        return kind, value

    def scan(self, dtype: torch.dtype, kind: ScanKind, value: Tree) -> Tree:
        """Represent a scan by its kind."""
        return "scan", kind, value

    def constant(self, value: Number, dtype: torch.dtype) -> Tree:
        """Represent a constant by its value; NaN is equal to itself only as text."""
        return "constant", value if value == value else "nan", dtype

    def index_expr(self, expr: Expr, dtype: torch.dtype) -> Tree:
        """Represent an index by its expression."""
        return "index", expr, dtype

    def indirect_indexing(
        self, value: Tree, size: Expr, check: bool = True, wrap: bool = True
    ) -> Expr:
        """Return a symbol, the same for equal values."""
        number = self._indirect.setdefault((value, size, wrap), len(self._indirect))
        return index_symbols(f"{INDIRECT_PREFIX}{number}_", 1)[0]

    def masked(self, mask: Tree, body: Callable[[], Tree], other: Number) -> Tree:
        """Represent a masked value by its parts."""
        return "masked", mask, body(), repr(other)

    def to_dtype(self, x: Tree, dtype: torch.dtype) -> Tree:
        """Represent a conversion by the dtype."""
        return "to_dtype", dtype, x

    def to_dtype_bitcast(self, x: Tree, dtype: torch.dtype, src_dtype: torch.dtype) -> Tree:
        """Represent a bitcast by the dtypes."""
        return "bitcast", dtype, src_dtype, x

    def elementwise(self, name: str, *args: Tree) -> Tree:
        """Represent a primitive by its name and operands."""
        return name, *args
