"""The values of size symbols in compiled code: it reads them off the sizes of its inputs.

A symbol may be a size itself, or occur in one: if an input has ``4*t`` rows, ``t`` is the number of
rows divided by 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import sympy

from minitorch2.graph.symbols.division import to_expr
from minitorch2.graph.symbols.polynomials import multiply_out


@lru_cache(4096)
def solve_for(size: sympy.Expr) -> tuple[sympy.Symbol, int, int] | None:
    """``(symbol, factor, offset)`` if ``size`` is ``factor*symbol + offset``, else None."""
    symbols = list(size.free_symbols)
    if len(symbols) != 1:
        return None
    factor = size.coeff(symbols[0], 1)
    offset = multiply_out(size - factor * symbols[0])
    if not factor.is_Integer or not offset.is_Integer or factor <= 0:
        return None
    return symbols[0], int(factor), int(offset)


def bindings(
    sizes: Iterable[tuple[Any, str]], wanted: Iterable[sympy.Symbol] | None = None
) -> Iterator[tuple[sympy.Symbol, str]]:
    """Yield each symbol that a size determines with its Python text, plain ones first.

    Args:
        sizes: expressions and the text that loads the number each one is.
        wanted: only these symbols; None for all.

    >>> s = sympy.Symbol("s0", positive=True, integer=True)
    >>> list(bindings([(4 * s + 1, "x.size(0)")]))
    [(s0, '(x.size(0) - 1) // 4')]
    """
    missing = None if wanted is None else set(wanted)
    found: set[sympy.Symbol] = set()
    solved = []
    for size, text in sizes:
        size = to_expr(size)
        solution = solve_for(size) if isinstance(size, sympy.Basic) else None
        if solution is not None:
            solved.append((solution, text))
    for (symbol, factor, offset), text in sorted(solved, key=lambda pair: pair[0][1:] != (1, 0)):
        if symbol not in found and (missing is None or symbol in missing):
            found.add(symbol)
            yield symbol, _inverse(text, factor, offset)


def _inverse(text: str, factor: int, offset: int) -> str:
    if offset:
        text = f"({text} - {offset})" if factor != 1 else f"{text} - {offset}"
    return text if factor == 1 else f"{text} // {factor}"
