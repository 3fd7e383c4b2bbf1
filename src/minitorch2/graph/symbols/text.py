"""Size expressions and conditions as Python text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import sympy
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter

from minitorch2.graph.symbols.conditions import (
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    Negation,
    is_condition,
)
from minitorch2.graph.symbols.floats import FLOAT_OPERATIONS, FloatOperation, float_bits


class ExprPrinter(StrPrinter):  # type: ignore[misc]  # SymPy has no types
    """SymPy's text in Python's integer arithmetic; symbols may stand for other text."""

    def __init__(self, names: Mapping[sympy.Symbol, str] | None = None) -> None:
        super().__init__()
        self.names = names or {}

    def _print_Symbol(self, expr: sympy.Symbol) -> str:
        return self.names.get(expr, expr.name)

    def _print_Float(self, expr: sympy.Float) -> str:
        return _print_float(float(expr))

    _print_NaN = _print_Infinity = _print_NegativeInfinity = _print_Float

    def _print_FloorDiv(self, expr: sympy.Expr) -> str:
        a, b = self._operands(expr)
        return f"({a} // {b})"

    def _print_ModularIndexing(self, expr: sympy.Expr) -> str:
        a, d, m = self._operands(expr)
        return f"({a} % {m})" if expr.args[1] == 1 else f"({a} // {d} % {m})"

    def _print_floor(self, expr: sympy.Expr) -> str:
        numerator, denominator = expr.args[0].as_numer_denom()
        return f"(({self._print(numerator)}) // ({self._print(denominator)}))"

    def _print_Mod(self, expr: sympy.Expr) -> str:
        return f"(({self._print(expr.args[0])}) % ({self._print(expr.args[1])}))"

    def _print_Max(self, expr: sympy.Expr) -> str:
        return f"max({', '.join(map(self._print, expr.args))})"

    def _print_Min(self, expr: sympy.Expr) -> str:
        return f"min({', '.join(map(self._print, expr.args))})"

    def _print_Function(self, expr: sympy.Expr) -> str:
        if isinstance(expr, FloatOperation):
            return expr.TEXT.format(
                *(self.parenthesize(part, PRECEDENCE["Func"], strict=True) for part in expr.args)
            )
        return str(super()._print_Function(expr))

    def _operands(self, expr: sympy.Expr) -> list[str]:
        """Print the operands of a chain of ``//`` and ``%``; products behind the first get
        brackets.
        """
        first, *rest = expr.args
        others = [self.parenthesize(part, PRECEDENCE["Atom"], strict=True) for part in rest]
        return [self.parenthesize(first, PRECEDENCE["Mul"], strict=True), *others]


for _operation in {*FLOAT_OPERATIONS.values()}:  # StrPrinter looks for a method per class
    setattr(ExprPrinter, f"_print_{_operation.__name__}", ExprPrinter._print_Function)


def _print_float(number: float) -> str:
    return repr(number) if math.isfinite(number) else f"float('{number}')"


_PLAIN = ExprPrinter()


def print_expr(expr: Any, names: Mapping[sympy.Symbol, str] | None = None) -> str:
    """Return a size expression as Python integer arithmetic: ``FloorDiv(s0, 2)`` -> ``(s0 // 2)``.

    Args:
        names: text that stands for a symbol; other symbols stand for themselves.
    """
    if not isinstance(expr, sympy.Basic):
        return _print_float(expr) if isinstance(expr, float) else repr(expr)
    return str((ExprPrinter(names) if names else _PLAIN).doprint(expr))


CALLED: Final = {"max": max, "min": min, "float": float, "int": int, "abs": abs, "math": math,
                  "round": round,
                  "float_bits": float_bits}  # fmt: skip
_CALLS: Final = re.compile(rf"\b({'|'.join(CALLED)})(?=[.(])")


def print_naming(value: Any, names: Mapping[sympy.Symbol, str], named: Callable[[Any], str]) -> str:
    """Return an expression or a condition in a text where ``max`` may mean something else.

    Args:
        names: text that stands for a symbol.
        named: names functions and modules of Python's.
    """
    places = {symbol: f"{{{place}}}" for place, symbol in enumerate(names)}
    text = (print_condition if is_condition(value) else print_expr)(value, places)
    return _CALLS.sub(lambda match: named(CALLED[match[1]]), text).format(*names.values())


def print_condition(condition: Condition, names: Mapping[sympy.Symbol, str] | None = None) -> str:
    """Return a condition on sizes as a Python expression.

    >>> s = sympy.Symbol("s0", positive=True, integer=True)
    >>> print_condition(Comparison(">", s + 1, 4))
    's0 + 1 > 4'
    """
    if isinstance(condition, Comparison):
        left, right = print_expr(condition.left, names), print_expr(condition.right, names)
        return f"{left} {condition.relation} {right}"
    if isinstance(condition, (AllOf, AnyOf)):
        word = " or " if isinstance(condition, AnyOf) else " and "
        return word.join(f"({print_condition(part, names)})" for part in condition.parts)
    if isinstance(condition, Negation):
        return f"not ({print_condition(condition.part, names)})"
    return repr(condition)
