"""Size expressions: plain integers, or SymPy expressions over size symbols."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import sympy
import torch

from minitorch2.graph.containers import items_in

Expr: TypeAlias = "int | sympy.Expr"

SYMBOL_NAME = re.compile(r"[sfu]\d+")
"""The names of symbols, which no other node of a graph has."""
SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
"""PyTorch's classes of numbers that are not known while compiling."""


def expr_of(size: int | float | torch.SymInt | torch.SymFloat | sympy.Expr) -> Any:
    """Return the expression of a SymInt; a plain number is its own expression.

    >>> from minitorch2.graph.symbols import ShapeEnv
    >>> expr_of(4)
    4
    >>> expr_of(ShapeEnv().new_size("s0", 8) * 2 + 1)
    2*s0 + 1
    """
    return size.node.expr if isinstance(size, SYMBOLIC) else size


def free_symbols(value: Any) -> set[sympy.Symbol]:
    """Return the size symbols that occur in an argument structure."""
    if isinstance(value, sympy.Basic):
        return {symbol for symbol in value.free_symbols if isinstance(symbol, sympy.Symbol)}
    if isinstance(value, SYMBOLIC):
        return free_symbols(value.node.expr)
    symbols = getattr(value, "symbols", None)
    own = symbols if isinstance(symbols, frozenset) else ()
    return set(own).union(*map(free_symbols, items_in(value)))


def argument_key(value: Any, of_tensor: Callable[[torch.Tensor], Any] = id) -> Any:
    """Return a key of arguments, with a part for each tensor: equal keys mean equal arguments."""
    if isinstance(value, torch.Tensor):
        return of_tensor(value)
    if isinstance(value, dict):
        return argument_key(tuple(value.items()), of_tensor)
    if isinstance(value, (list, tuple, slice)):
        items = [argument_key(item, of_tensor) for item in items_in(value)]
        return (slice, *items) if isinstance(value, slice) else tuple(items)
    if isinstance(value, SYMBOLIC):
        return (type(value), expr_of(value))
    # 1, 1.0 and True are equal in Python but not as arguments; 0.0 and -0.0 neither.
    return (type(value), repr(value) if isinstance(value, (float, complex)) else value)


def same_sizes(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Return whether two lists of sizes are certainly the same, without making a guard."""
    return len(a) == len(b) and all(expr_of(x) == expr_of(y) for x, y in zip(a, b, strict=True))


def size_symbol(name: str) -> sympy.Symbol:
    """Return the symbol of a size: an integer of at least 1."""
    return sympy.Symbol(name, positive=True, integer=True)


def is_unbacked(symbol: sympy.Symbol) -> bool:
    """Return whether only data tell the value of a symbol: its name is ``u0``, ``u1``, ..."""
    return bool(symbol.name.startswith("u"))
