"""The sizes that vary, in terms of symbols that an input has as a size.

Facts that were learned replace symbols: after ``s1 == 2*s0`` the algebra writes ``2*s0`` for both,
and after ``s0 % 2 == 0`` it writes ``2*t``. A signature needs the opposite: each dimension that
varies is a symbol, and the facts are conditions on them. Symbols that are equal are one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import sympy

from minitorch2.exporting.signature import Condition, Symbol
from minitorch2.graph.symbols import ShapeEnv, print_condition
from minitorch2.graph.symbols.conditions import Condition as SizeCondition
from minitorch2.graph.symbols.conditions import map_condition


class InputSizes:
    """The symbols of one environment as a signature knows them."""

    def __init__(self, env: ShapeEnv) -> None:
        self.env = env

    def _by_value(self) -> dict[Any, sympy.Symbol]:
        """Return the first symbol of each value."""
        found: dict[Any, sympy.Symbol] = {}
        for symbol, record in self.env.symbols.items():
            if record.hint is not None:
                found.setdefault(self.env.simplify(symbol), symbol)
        return found

    def size(self, size: Any) -> Any:
        """Return the size of an input: a number, a symbol, or an expression of other sizes."""
        value = self.env.simplify(size)
        if not isinstance(value, sympy.Basic) or value.is_Integer:
            return int(value)
        return self._by_value().get(value) or self.argument(value)

    def argument(self, expr: Any) -> Any:
        """Return an expression in symbols that inputs have as sizes."""
        expr = self.env.knowledge.in_inputs(self.env.simplify(expr))
        if not isinstance(expr, sympy.Basic):
            return expr
        first = self._by_value()
        return expr.xreplace({s: self._first(s, first) for s in expr.free_symbols})

    def _first(self, symbol: sympy.Symbol, first: Mapping[Any, sympy.Symbol]) -> Any:
        value = self.env.simplify(symbol)
        return first.get(value, symbol) if isinstance(value, sympy.Basic) else value

    def symbol(self, name: str, source: tuple[int, int], where: str) -> Symbol | None:
        """Return a size by its name in forms; None if that is an expression of others.

        Args:
            where: the argument's dimension, in the user's words.
        """
        record = next((r for s, r in self.env.symbols.items() if str(s) == name), None)
        if record is None:
            return None
        known = self.env.knowledge.range(record.symbol)
        low, high = max(record.limits.low, known.low), min(record.limits.high, known.high)
        limit = math.inf if high == math.inf else int(high)
        return Symbol(source, int(record.hint or 0), math.ceil(low), limit, record.name or where)

    def conditions(self, shown: Mapping[str, str]) -> Iterator[Condition]:
        """Yield the conditions that came up while capturing and lowering.

        Args:
            shown: the user's words for symbols.
        """
        first = self._by_value()
        words = {s: shown.get(str(s), str(s)) for s in self.env.symbols}

        def settled(expr: Any) -> Any:
            expr = self.env.knowledge.in_inputs(expr)
            symbols = expr.free_symbols if isinstance(expr, sympy.Basic) else ()
            return expr.xreplace({s: self._first(s, first) for s in symbols}) if symbols else expr

        seen: set[str] = set()
        for guard in self.env.guards:
            condition: SizeCondition = map_condition(guard.condition, settled)
            if isinstance(condition, bool) or print_condition(condition) in seen:
                continue
            seen.add(print_condition(condition))
            line = "" if guard.line is None else str(guard.line)
            yield Condition(print_condition(condition), print_condition(condition, words), line)
