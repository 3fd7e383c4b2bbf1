"""Numbers that vary from step to step: a step is generalized from earlier ones that ended like it.

    all samples equal                                      -> a constant (a size of 0 or 1, always)
    a size of an input varies                              -> a symbol; equal samples share it
    an int varies as  s, c*s, s+c  or  s*t                 -> an expression of known symbols
    a float varies as  f  or  -f                           -> an expression
    any other number varies                                -> a parameter, an input of the program

A wrong guess costs a compilation and never a wrong answer. A program is used only where each number
of a new step equals the program's constant or expression (`program.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any, TypeAlias

import sympy

from minitorch2.graph.symbols import ShapeEnv, expr_of
from minitorch2.lazy.trie import Number, Numbers, Place

Column: TypeAlias = tuple[Number, ...]
"""The values of one number in the samples, those of the present step last."""
Where: TypeAlias = tuple[int, int]
"""The position of an event in the step, and of the number in the event."""


@dataclass
class Holes:
    """The constants, symbols and expressions that the numbers of a path are.

    Attributes:
        env: where the symbols are.
        slots: for each event, what its numbers are: a number or an expression.
        columns: the samples of each symbol.
        sources: the number that tells the value of each symbol.
        sizes: the symbols that are sizes of inputs, so at least 2.
        parameters: the symbols that are inputs of the program, in order.
    """

    env: ShapeEnv = field(default_factory=lambda: ShapeEnv(duck_shapes=False))
    slots: list[tuple[Any, ...]] = field(default_factory=list)
    columns: dict[sympy.Symbol, Column] = field(default_factory=dict)
    sources: dict[sympy.Symbol, Where] = field(default_factory=dict)
    sizes: set[sympy.Symbol] = field(default_factory=set)
    parameters: list[sympy.Symbol] = field(default_factory=list)


def solve(path: Sequence[Place], numbers: Sequence[Numbers]) -> Holes:
    """Return what the numbers of a path are, from the steps that took it and the present one."""
    holes = Holes()
    samples = [s for s in path[-1].samples if s != tuple(numbers)] + [tuple(numbers)]
    shared = {place.event[5][0] for place in path if place.func is None and place.event[5]}
    entered = -1
    for position, place in enumerate(path):
        entered += place.func is None
        is_fixed = place.func is None and (
            place.event[5] is not None or entered in shared or _has_strides(place)
        )
        slots = []
        for k in range(len(numbers[position])):
            column = tuple(sample[position][k] for sample in samples)
            if is_fixed:
                column = column[-1:]
            slots.append(_slot(holes, (position, k), column, is_size=place.func is None))
        holes.slots.append(tuple(slots))
    return holes


def _has_strides(place: Place) -> bool:
    """Return whether the layout of an input is known for its present sizes only."""
    layout = place.event[4]
    return layout is not True and layout[:1] != (-1,)


def _slot(holes: Holes, where: Where, column: Column, *, is_size: bool) -> Any:
    now = column[-1]
    if all(value == now for value in column) or (is_size and now < 2):
        return now
    known = _explained(holes, column)
    return _symbol(holes, where, column, is_size=is_size) if known is None else known


def _symbol(holes: Holes, where: Where, column: Column, *, is_size: bool) -> Any:
    """Make a symbol for a number that varies in its own way."""
    source, now = f"{where[0]}.{where[1]}", column[-1]
    if is_size:
        number = holes.env.input_size(source, int(now), shared=False, name=source)
    else:
        number = holes.env.input_number(source, now, marked=isinstance(now, float))
    symbol = expr_of(number)
    holes.columns[symbol], holes.sources[symbol] = column, where
    if is_size:
        holes.sizes.add(symbol)
    else:
        holes.parameters.append(symbol)
    return symbol


def _explained(holes: Holes, column: Column) -> Any:
    """Return an expression of known symbols that has the values of a column, if there is one."""
    is_int = type(column[-1]) is int
    alike = [
        (symbol, seen)
        for symbol, seen in holes.columns.items()
        if (type(seen[-1]) is int) == is_int and len(seen) == len(column)
    ]
    for symbol, seen in alike:
        if seen == column:
            return symbol
        if not is_int and seen == tuple(-value for value in column):
            return -symbol
    return _int_expression(alike, column) if is_int else None


def _int_expression(alike: list[tuple[sympy.Symbol, Column]], column: Column) -> Any:
    for symbol, seen in alike:
        if all(b and a % b == 0 for a, b in zip(column, seen, strict=True)):
            factors = {a // b for a, b in zip(column, seen, strict=True)}
            if len(factors) == 1:
                return symbol * factors.pop()
        differences = {a - b for a, b in zip(column, seen, strict=True)}
        if len(differences) == 1:
            return symbol + differences.pop()
    for (s, one), (t, other) in combinations_with_replacement(alike, 2):
        if all(a == b * c for a, b, c in zip(column, one, other, strict=True)):
            return s * t
    return None
