"""Numbers that are known at run time only: the count of `nonzero`, the value of `item`.

While a program is captured, each becomes a new symbol without a hint (*unbacked*, PyTorch 2 paper,
section 5.3). When the captured graph runs again on fake tensors, to be differentiated, the same
operators get the same symbols in the same order. So facts about the symbols stay known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import sympy
import torch

from minitorch2.graph.symbols.expression import expr_of, free_symbols, is_unbacked
from minitorch2.graph.symbols.ranges import ANY, Range

if TYPE_CHECKING:
    from minitorch2.graph.symbols.shape_env import ShapeEnv


class UnbackedSymbols:
    """The symbols that operators ask for in one run.

    Attributes:
        env: the environment in which they are made.
        used: all symbols that were returned, in order, with repeats.
    """

    def __init__(self, env: ShapeEnv, given: Iterable[sympy.Symbol] | None) -> None:
        self.env = env
        self.used: list[sympy.Symbol] = []
        self._given = None if given is None else iter(given)

    def size(self, limits: Range, counted: torch.Tensor | None = None) -> Any:
        """Return the number of elements that an operator will find, as a symbol.

        It is the same for a tensor ``counted`` that was not written to, that is, of the same
        version. Without versions nothing is remembered.
        """
        key = None if counted is None or counted.is_inference() else counted._version
        symbol = self._next() or _remembered(counted, self.env, key)
        symbol = symbol or self.env.unbacked_symbol(int, limits)
        if key is not None:
            counted.count = (self.env, key, symbol)  # type: ignore[union-attr]
        return self._give(symbol)

    def number(self, pytype: type, limits: Range = ANY) -> Any:
        """Return the symbol of an element's value."""
        return self._give(self._next() or self.env.unbacked_symbol(pytype, limits))

    def _next(self) -> sympy.Symbol | None:
        return None if self._given is None else next(self._given)

    def _give(self, symbol: sympy.Symbol) -> Any:
        self.used.append(symbol)
        return self.env.number_of(self.env.simplify(symbol))


def _remembered(
    counted: torch.Tensor | None, env: ShapeEnv, version: int | None
) -> sympy.Symbol | None:
    """Return the symbol of a tensor that was counted before and has not been written to since."""
    known = getattr(counted, "count", None)
    return known[2] if known is not None and known[:2] == (env, version) else None


_CURRENT: ContextVar[UnbackedSymbols | None] = ContextVar("unbacked_symbols", default=None)


def current_symbols() -> UnbackedSymbols | None:
    """Return the source of unbacked symbols; None where operators that need data are refused."""
    return _CURRENT.get()


@contextmanager
def making_symbols(
    env: ShapeEnv, given: Iterable[sympy.Symbol] | None = None
) -> Iterator[UnbackedSymbols]:
    """Let operators whose result depends on data return symbols inside the block.

    Args:
        given: the symbols of an earlier run, in order; None for new ones.
    """
    symbols = UnbackedSymbols(env, given)
    token = _CURRENT.set(symbols)
    try:
        yield symbols
    finally:
        _CURRENT.reset(token)


def unbacked_in(value: Any) -> set[sympy.Symbol]:
    """Return the unbacked symbols in a tensor's sizes, numbers, conditions or other arguments."""
    parts = tuple(value.shape) if isinstance(value, torch.Tensor) else value
    return {symbol for symbol in free_symbols(parts) if is_unbacked(symbol)}


def is_dense(tensor: torch.Tensor) -> bool:
    """Return ``tensor.is_contiguous()``; for unbacked sizes, whether it is true for all of them.

    The stride of an unbacked dimension counts even though its size may be 0 or 1. So a layout that
    is contiguous for such sizes only does not count as dense.
    """
    if not unbacked_in((*tensor.shape, *tensor.stride())):
        return tensor.is_contiguous()
    step: Any = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if expr_of(size) != 1 and expr_of(stride) != expr_of(step):
            return False
        step = step * size
    return True
