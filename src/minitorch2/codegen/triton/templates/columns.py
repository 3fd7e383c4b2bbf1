"""Bounds of the columns of a matrix of scores that the rows of a block can see.

A score of -inf has the weight 0. In causal attention and in windows a comparison of row and column
hides scores. That comparison is a linear inequality, so whole blocks of columns need no visit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import sympy

from minitorch2.codegen.triton.indexing import XINDEX, YINDEX
from minitorch2.codegen.triton.online import Tree
from minitorch2.codegen.triton.templates.contraction import Contraction
from minitorch2.loopir.expressions import Expr, simplify, to_expr


def visible(tree: Tree) -> Iterator[Expr]:
    """Yield expressions of row and column that are at least 0 wherever a score is not -inf."""
    match tree:
        case ("to_dtype", _, inner):
            yield from visible(inner)  # type: ignore[arg-type]
        case ("where", condition, ("constant", value, _), kept) if value == -math.inf:
            yield from _where(condition, False)  # type: ignore[arg-type]
            yield from visible(kept)  # type: ignore[arg-type]
        case ("where", condition, kept, ("constant", value, _)) if value == -math.inf:
            yield from _where(condition, True)  # type: ignore[arg-type]
            yield from visible(kept)  # type: ignore[arg-type]


def _where(condition: Tree, wanted: bool) -> Iterator[Expr]:
    """Yield what is at least 0 wherever a condition has the value that is wanted."""
    match condition:
        case ("logical_not", inner):
            yield from _where(inner, not wanted)  # type: ignore[arg-type]
        case ("logical_and" | "logical_or" as name, *both) if (name == "logical_and") == wanted:
            for each in both:
                yield from _where(each, wanted)  # type: ignore[arg-type]
        case ("lt" | "le" | "gt" | "ge" as name, a, b):
            numbers = _number(a), _number(b)  # type: ignore[arg-type]
            if None not in numbers:
                difference = to_expr(numbers[1] - numbers[0])  # type: ignore[operator]
                upwards = (name in ("lt", "le")) == wanted
                is_strict = (name in ("lt", "gt")) == wanted
                yield (difference if upwards else -difference) - int(is_strict)


def _number(tree: Tree) -> Expr | None:
    """Return an integer that is computed of indices."""
    match tree:
        case ("index", expr, _):
            return expr
        case ("constant", int(value), _):
            return value
        case ("to_dtype", dtype, inner) if not dtype.is_floating_point:  # type: ignore[attr-defined]
            return _number(inner)  # type: ignore[arg-type]
        case ("add" | "sub" as name, a, b):
            one, other = _number(a), _number(b)  # type: ignore[arg-type]
            if one is not None and other is not None:
                return one + other if name == "add" else one - other
    return None


def visited(tree: Tree, given: Contraction, columns: str) -> tuple[str, str]:
    """Return the first column that a block of rows visits, and the end of the visit, as text."""
    first, last = ["0"], [columns]
    for expr in visible(tree):
        plain = sympy.sympify(simplify(expr, given.ranges()))
        across, down = plain.coeff(YINDEX), plain.coeff(XINDEX)
        start = plain - across * YINDEX - down * XINDEX
        if abs(across) != 1 or not start.is_Integer or down not in (-1, 0, 1):
            continue
        slope, end = (int(down), int(start)) if across < 0 else (-int(down), -int(start))
        if across < 0:
            last.append(_bound(slope, slope > 0, end + 1 - (slope > 0)))
        else:
            low = _bound(slope, slope < 0, end + (slope < 0))
            first.append(f"({low}) // YBLOCK * YBLOCK")
    return _extreme("tl.maximum", first), _extreme("tl.minimum", last)


def _bound(slope: int, at_last_row: bool, number: int) -> str:
    """Return a bound as text, at the first row of a block or one row behind its last one."""
    rows = "xoffset + XBLOCK" if at_last_row else "xoffset"
    sign = {0: "", 1: rows, -1: f"-({rows})" if at_last_row else f"-{rows}"}[slope]
    if not sign:
        return str(number)
    return f"{sign} {'-' if number < 0 else '+'} {abs(number)}" if number else sign


def _extreme(function: str, texts: list[str]) -> str:
    text, *others = texts
    for other in others:
        text = f"{function}({text}, {other})"
    return text
