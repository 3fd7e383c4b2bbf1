"""A report on each size: its symbol, its range, and the reason if it was specialised."""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from minitorch2.graph.symbols.conditions import Comparison
from minitorch2.graph.symbols.expression import free_symbols
from minitorch2.graph.symbols.shape_env import ShapeEnv, ShapeGuard
from minitorch2.graph.symbols.text import print_condition, print_expr


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


def chain_of(env: ShapeEnv, symbol: sympy.Symbol) -> list[ShapeGuard]:
    """Return the guards about a symbol, directly or through an equality with others."""
    related = {
        symbol,
        *(s for s, whole in env.knowledge.multiples.items() if symbol in free_symbols(whole)),
    }
    chain: dict[int, ShapeGuard] = {}
    grown = True
    while grown:
        grown = False
        for number, guard in enumerate(env.guards):
            symbols = free_symbols(guard.condition)
            if number in chain or not symbols & related:
                continue
            chain[number] = guard
            if isinstance(guard.condition, Comparison) and guard.condition.relation == "==":
                grown = grown or not symbols <= related
                related |= symbols
    return [chain[number] for number in sorted(chain)]


def describe_chain(env: ShapeEnv, chain: list[ShapeGuard]) -> str:
    """Return one step a line: the guard over the inputs, the operator, the user's line."""
    return "\n".join(f"  {step}" for step in _steps(env, chain))


def _origin_of(env: ShapeEnv, symbol: sympy.Symbol) -> list[str]:
    """Return the line that made an unbacked symbol, and the checks stated about it."""
    line = env.symbols[symbol].line
    made = [f"made by\n      {line}"] if line else []
    stated = [check for check in env.stated if symbol in free_symbols(check.condition)]
    return made + _steps(env, stated, "stated by")


def _steps(env: ShapeEnv, chain: list[ShapeGuard], verb: str = "asked by") -> list[str]:
    names = {s: str(r.sources[0]) for s, r in env.symbols.items() if r.sources}
    names |= {symbol: print_expr(whole, names) for symbol, whole in env.knowledge.multiples.items()}
    steps = []
    for guard in chain:
        asked = guard.operator or "Python"
        line = f"\n      {guard.line}" if guard.line else ""
        steps.append(f"{print_condition(guard.condition, names)}, {verb} {asked}{line}")
    return steps


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
                (*_origin_of(env, symbol), *_steps(env, chain_of(env, symbol))),
            )
        )
    return reports
