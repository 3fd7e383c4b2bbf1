"""The handler that finds the least and greatest address of every access.

It serves two ends: a proof that no address leaves its buffer, and the choice of 32-bit indices
("high/low watermarks", PyTorch 2 paper, section 4.3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from minitorch2.loopir.buffers import Buffer, ComputedBuffer
from minitorch2.loopir.expressions import (
    Expr,
    Ranges,
    bounds,
    index_symbols,
    is_less,
    is_nonnegative,
    simplify,
)
from minitorch2.loopir.handlers.effects import EffectHandler
from minitorch2.loopir.ops import Number, StoreMode, use_handler


@dataclass(frozen=True)
class Access:
    """An access and the range of its address, if that is known. `masked`: it may not happen."""

    name: str
    index: Expr
    limits: tuple[Expr, Expr] | None
    masked: bool

    def is_within(self, storage_size: Expr) -> bool:
        """Return whether the address is certainly inside a buffer of `storage_size` elements."""
        if self.limits is None:
            return False
        low, high = self.limits
        return is_nonnegative(low) and is_less(high, storage_size)


class BoundsHandler(EffectHandler):
    """`accesses` lists every load and store, in order."""

    def __init__(self, ranges: Ranges) -> None:
        super().__init__()
        self.ranges = ranges
        self.accesses: list[Access] = []
        self._mask_depth = 0

    def _access(self, name: str, index: Expr) -> None:
        index = simplify(index, self.ranges)
        limits = bounds(index, self.ranges)
        self.accesses.append(Access(name, index, limits, self._mask_depth > 0))

    def load(self, name: str, index: Expr) -> None:
        """Note the address."""
        self._access(name, index)

    def store(self, name: str, index: Expr, value: None, mode: StoreMode = "set") -> None:
        """Note the address."""
        self._access(name, index)

    def indirect_indexing(
        self, value: None, size: Expr, check: bool = True, wrap: bool = True
    ) -> Expr:
        """Return a symbol that ranges over `size`: generated code checks it, or it was proved."""
        symbol = super().indirect_indexing(value, size, check, wrap)
        self.ranges = (*self.ranges, (self.indirect[-1], size))
        return symbol

    def masked(self, mask: None, body: Callable[[], None], other: Number) -> None:
        """Mark the accesses of the body as masked: they happen only where the mask is true."""
        self._mask_depth += 1
        body()
        self._mask_depth -= 1


def accesses_of(buffer: ComputedBuffer) -> list[Access]:
    """Return every access of a buffer's loop body with the range of its address."""
    loops = buffer.loops
    sizes = (*loops.ranges, *loops.reduction_ranges)
    symbols = index_symbols("i", len(sizes))
    handler = BoundsHandler(tuple(zip(symbols, sizes, strict=True)))
    with use_handler(handler):
        buffer.run(symbols[: len(loops.ranges)], symbols[len(loops.ranges) :])
    return handler.accesses


def unproved_accesses(buffers: list[Buffer]) -> list[Access]:
    """Return the accesses without a mask whose address is not proved to be in its buffer."""
    sizes = {buffer.name: buffer.fixed_layout().storage_size() for buffer in buffers}
    computed = [buffer for buffer in buffers if isinstance(buffer, ComputedBuffer)]
    return [
        access
        for buffer in computed
        if not any(n == 0 for n in (*buffer.loops.ranges, *buffer.loops.reduction_ranges))
        for access in accesses_of(buffer)
        if not access.masked and not access.is_within(sizes[access.name])
    ]
