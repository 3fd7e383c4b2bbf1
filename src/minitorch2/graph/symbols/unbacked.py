"""Numbers that only data will tell: the count of `nonzero`, the value of `item`.

While a program is captured, each becomes a new symbol without a hint (*unbacked*, PyTorch 2 paper,
section 5.3). When what was captured runs again on fake tensors, to be differentiated, the same
operators get the same symbols again, in the same order: facts stated of them stay known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import sympy
import torch

from minitorch2.graph.symbols.expression import expr_of, free_symbols
from minitorch2.graph.symbols.ranges import ANY, Range

if TYPE_CHECKING:
    from minitorch2.graph.symbols.shape_env import ShapeEnv


class UnbackedSymbols:
    """The symbols that operators ask for in one run.

    Attributes:
        env: where they are made.
        used: all that were given out, in order, with repeats.
    """

    def __init__(self, env: ShapeEnv, given: Iterable[sympy.Symbol] | None) -> None:
        self.env = env
        self.used: list[sympy.Symbol] = []
        self._given = None if given is None else iter(given)

    def size(self, limits: Range, counted: torch.Tensor | None = None) -> Any:
        """How many elements an operator will find; the same for one unchanged tensor ``counted``.

        A tensor is written to where its version changes; without versions nothing is remembered.
        """
        key = None if counted is None or counted.is_inference() else counted._version
        symbol = self._next() or _remembered(counted, self.env, key)
        symbol = symbol or self.env.unbacked_symbol(int, limits)
        if key is not None:
            counted.count = (self.env, key, symbol)  # type: ignore[union-attr]
        return self._give(symbol)

    def number(self, pytype: type, limits: Range = ANY) -> Any:
        """The value of an element."""
        return self._give(self._next() or self.env.unbacked_symbol(pytype, limits))

    def _next(self) -> sympy.Symbol | None:
        return None if self._given is None else next(self._given)

    def _give(self, symbol: sympy.Symbol) -> Any:
        self.used.append(symbol)
        return self.env.number_of(self.env.simplify(symbol))


def _remembered(
    counted: torch.Tensor | None, env: ShapeEnv, version: int | None
) -> sympy.Symbol | None:
    """The symbol of a tensor that was counted before and has not been written to since."""
    known = getattr(counted, "count", None)
    return known[2] if known is not None and known[:2] == (env, version) else None


_CURRENT: ContextVar[UnbackedSymbols | None] = ContextVar("unbacked_symbols", default=None)


def current_symbols() -> UnbackedSymbols | None:
    """Where operators get their symbols now; None where what needs data is refused."""
    return _CURRENT.get()


@contextmanager
def making_symbols(
    env: ShapeEnv, given: Iterable[sympy.Symbol] | None = None
) -> Iterator[UnbackedSymbols]:
    """Operators whose result depends on data give symbols inside the block.

    Args:
        given: what they gave when they ran before; None for new ones.
    """
    symbols = UnbackedSymbols(env, given)
    token = _CURRENT.set(symbols)
    try:
        yield symbols
    finally:
        _CURRENT.reset(token)


def unbacked_in(value: Any) -> set[sympy.Symbol]:
    """The unbacked symbols in a tensor's sizes, in numbers, conditions or other arguments."""
    parts = tuple(value.shape) if isinstance(value, torch.Tensor) else value
    return {symbol for symbol in free_symbols(parts) if is_unbacked(symbol)}


def is_dense(tensor: torch.Tensor) -> bool:
    """``tensor.is_contiguous()``; where only data will tell, whether it is so for all sizes.

    Strides of a size that may be 0 or 1 are then taken seriously: a layout that happens to be
    contiguous is treated as any other one.
    """
    if not unbacked_in((*tensor.shape, *tensor.stride())):
        return tensor.is_contiguous()
    step: Any = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if expr_of(size) != 1 and expr_of(stride) != expr_of(step):
            return False
        step = step * size
    return True


def is_unbacked(symbol: sympy.Symbol) -> bool:
    """Whether only data will tell a symbol's value: such symbols are named u0, u1, ..."""
    return bool(symbol.name.startswith("u"))
