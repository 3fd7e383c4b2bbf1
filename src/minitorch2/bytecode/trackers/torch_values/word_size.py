"""Integers of Python have any size, those of a graph 64 bits.

An expression of integer arguments enters the graph only if no part of it can exceed 64 bits for
arguments of moderate size; guards check their size. Otherwise the arguments are taken for
constants, with which Python computes.
"""

from __future__ import annotations

from typing import Any, Final

import sympy

from minitorch2.graph.symbols import ShapeEnv
from minitorch2.graph.symbols.conditions import compare
from minitorch2.graph.symbols.expression import is_unbacked
from minitorch2.graph.symbols.floats import rounded_parts
from minitorch2.graph.symbols.ranges import Known, Range, range_of

_WORD: Final = Range(-(2**63), 2**63 - 1)
_MODERATE: Final = Range(-(2**30), 2**30)
_SMALL: Final = Range(0, 2**10)
_LARGE: Final = Range(1 - 2**62, 2**62 - 1)


def fits_words(env: ShapeEnv, expr: Any) -> bool:
    """Return whether an integer expression fits into 64 bits, given the guards that it adds."""
    if not isinstance(expr, sympy.Basic) or not expr.is_integer:
        return True
    rounded = {part: sympy.Dummy(integer=True) for part in rounded_parts(expr)}
    if not all(_is_moderate(env, part) for part in rounded):
        return False
    expr = expr.xreplace(rounded)
    numbers = [env.symbols[symbol] for symbol in _inputs(env, expr) if symbol in env.symbols]
    numbers = [n for n in numbers if n.limits.low < 0 and not is_unbacked(n.symbol)]
    limits = _LARGE if expr.is_Symbol else _MODERATE
    if any(n.hint is None or not limits.low <= n.hint <= limits.high for n in numbers):
        return False
    # Products of a few sizes are sizes of memory; products of many are Python's numbers.
    ranges = dict.fromkeys(expr.free_symbols, limits if numbers else _SMALL)
    ranges |= dict.fromkeys(rounded.values(), _MODERATE)
    known: Known = {}
    parts = (range_of(part, ranges, known) for part in sympy.preorder_traversal(expr))
    if any(part.meet(_WORD) != part for part in parts):
        return False
    for number in numbers:
        number.limits = number.limits.meet(limits)
    return True


def _is_moderate(env: ShapeEnv, number: sympy.Expr) -> bool:
    """Return whether an integer that Python rounds is moderate; guards check it."""
    limits = compare(">=", number, _MODERATE.low), compare("<=", number, _MODERATE.high)
    return all(map(env.holds, limits))


def _inputs(env: ShapeEnv, expr: sympy.Basic) -> set[sympy.Symbol]:
    """Return the symbols that an expression depends on, without those that divisibility made."""
    multiples = env.knowledge.multiples
    while any(symbol in multiples for symbol in expr.free_symbols):
        expr = expr.xreplace(multiples)
    return set(expr.free_symbols)
