"""A report on each size: its symbol, its range, and the reason if it was specialised."""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from minitorch2.graph.symbols.expression import free_symbols
from minitorch2.graph.symbols.report import chain_of, steps_of
from minitorch2.graph.symbols.shape_env import ShapeEnv
from minitorch2.graph.symbols.text import print_expr


@dataclass(frozen=True)
class SizeReport:
    """One symbol of a compiled graph.

    Attributes:
        symbol: its name.
        sources: what has this size, such as ``x.shape[0]``.
        hint: its value while compiling.
        value: what it is equal to, if that was found out; else its own name.
        range: the sizes that the compiled graph serves.
        chain: the guards that made it what it is, oldest first.
    """

    symbol: str
    sources: tuple[str, ...]
    hint: float | None
    value: str
    range: str
    chain: tuple[str, ...]

    def __str__(self) -> str:
        named = " = ".join((self.symbol, *self.sources))
        if self.value != self.symbol:
            named += f" = {self.value}"
        hint = "only data will tell" if self.hint is None else f"{self.hint} while compiling"
        lines = [f"{named}: {self.range} ({hint})"]
        return "\n".join([*lines, *(f"    {step}" for step in self.chain)])


def _origin_of(env: ShapeEnv, symbol: sympy.Symbol) -> list[str]:
    """Return the line that made an unbacked symbol, and the checks stated about it."""
    line = env.symbols[symbol].line
    made = [f"made by\n      {line}"] if line else []
    stated = [check for check in env.stated if symbol in free_symbols(check.condition)]
    return made + steps_of(env, stated, "stated by")


def size_report(env: ShapeEnv) -> list[SizeReport]:
    """Return a report of every symbol, in the order of the inputs."""
    reports = []
    names = {symbol: record.shown for symbol, record in env.symbols.items()}
    for symbol, record in env.symbols.items():
        value = env.simplify(symbol)
        reports.append(
            SizeReport(
                record.shown,
                tuple(map(str, record.sources)),
                record.hint,
                print_expr(value, names),
                str(env.knowledge.range(value)),
                (*_origin_of(env, symbol), *steps_of(env, chain_of(env, symbol))),
            )
        )
    return reports
