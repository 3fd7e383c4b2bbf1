"""The guards that made a size what it is, in words."""

from __future__ import annotations

import sympy

from minitorch2.graph.symbols.conditions import Comparison
from minitorch2.graph.symbols.expression import free_symbols
from minitorch2.graph.symbols.shape_env import ShapeEnv, ShapeGuard
from minitorch2.graph.symbols.text import print_condition, print_expr


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
    return "\n".join(f"  {step}" for step in steps_of(env, chain))


def steps_of(env: ShapeEnv, chain: list[ShapeGuard], verb: str = "asked by") -> list[str]:
    """Return the steps of a chain as text."""
    names = {s: str(r.sources[0]) for s, r in env.symbols.items() if r.sources}
    names |= {symbol: print_expr(whole, names) for symbol, whole in env.knowledge.multiples.items()}
    steps = []
    for guard in chain:
        asked = guard.operator or "Python"
        line = f"\n      {guard.line}" if guard.line else ""
        steps.append(f"{print_condition(guard.condition, names)}, {verb} {asked}{line}")
    return steps
