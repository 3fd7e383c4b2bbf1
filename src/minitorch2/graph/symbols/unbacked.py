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

from minitorch2.foundation.blocks import holding
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

    def number(self, pytype: type, limits: Range = ANY, *key: object) -> Any:
        """Return the symbol of a size or of an element's value; the same one for an equal key."""
        computed, key = self.env.computed, key or (object(),)
        known = computed.get(key) if self._given is None else next(self._given)
        computed[key] = known or self.env.unbacked_symbol(pytype, limits)
        self.used.append(computed[key])
        return self.env.number_of(self.env.simplify(computed[key]))

    def forget_checks(self, known: Iterable[sympy.Symbol] = ()) -> None:
        """Forget what was stated of symbols that nothing outside of this run knows."""
        inner, env = {*self.used}.difference(known), self.env
        env.checks = [each for each in env.checks if inner.isdisjoint(unbacked_in(each.condition))]


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
    with holding(_CURRENT, symbols):
        yield symbols


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
