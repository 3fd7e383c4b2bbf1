"""Conditions on sizes.

    Condition ::= bool
                | Comparison(relation, left, right)     relation in  <  <=  ==  !=  >=  >
                | AllOf(parts) | AnyOf(parts)
                | Negation(part)                        of a comparison of floats

They are small classes of this module instead of SymPy's relations, which examine their operands at
length when they are made. A condition that known facts do not decide is decided by a hint, and
guarded. For integers, ``not a < b`` is ``a >= b``. For floats it is not, as one of them may be a
NaN.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias, TypeGuard

import sympy

from minitorch2.graph.symbols.expression import free_symbols
from minitorch2.graph.symbols.floats import Sign, is_float_expression, value_of

RELATIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}
OPPOSITE: Final = {"<": ">=", "<=": ">", "==": "!=", "!=": "==", ">=": "<", ">": "<="}


@dataclass(frozen=True)
class Comparison:
    """``left relation right``."""

    relation: str
    left: Any
    right: Any

    @cached_property
    def symbols(self) -> frozenset[sympy.Symbol]:
        """The size symbols that occur in it."""
        return frozenset(free_symbols((self.left, self.right)))

    def map(self, change: Callable[[Any], Any]) -> Condition:
        """Return the same comparison with `change` applied to its operands."""
        return compare(self.relation, change(self.left), change(self.right))

    def opposite(self) -> Condition:
        """Return the condition that is true where this one is false."""
        if self.relation not in ("==", "!=") and self.is_of_floats:
            return Negation(self)
        return Comparison(OPPOSITE[self.relation], self.left, self.right)

    @cached_property
    def is_of_floats(self) -> bool:
        """True if an operand is computed in floating point."""
        return is_float_expression(self.left) or is_float_expression(self.right)


@dataclass(frozen=True)
class Negation:
    """A condition that is true if its part, a comparison of floats, is false."""

    part: Comparison

    @property
    def symbols(self) -> frozenset[sympy.Symbol]:
        """The symbols that occur in it."""
        return self.part.symbols

    def map(self, change: Callable[[Any], Any]) -> Condition:
        """Return the same condition of changed operands."""
        return opposite(self.part.map(change))

    def opposite(self) -> Condition:
        """Return the condition that is true where this one is false."""
        return self.part


@dataclass(frozen=True)
class AllOf:
    """True if all parts are."""

    parts: tuple[Condition, ...]

    @cached_property
    def symbols(self) -> frozenset[sympy.Symbol]:
        """The size symbols that occur in it."""
        return frozenset().union(*(part.symbols for part in self.parts))  # type: ignore[union-attr]

    def map(self, change: Callable[[Any], Any]) -> Condition:
        """Return the same condition of changed operands."""
        return all_of(map_condition(part, change) for part in self.parts)

    def opposite(self) -> Condition:
        """Return the condition that is true where this one is false."""
        return any_of(opposite(part) for part in self.parts)


@dataclass(frozen=True)
class AnyOf(AllOf):
    """True if any part is."""

    def map(self, change: Callable[[Any], Any]) -> Condition:
        """Return the same condition of changed operands."""
        return any_of(map_condition(part, change) for part in self.parts)

    def opposite(self) -> Condition:
        """Return the condition that is true where this one is false."""
        return all_of(opposite(part) for part in self.parts)


Condition: TypeAlias = bool | Comparison | Negation | AllOf | AnyOf


def is_condition(value: object) -> TypeGuard[Comparison | Negation | AllOf]:
    """Return whether a value is a condition object on sizes, which may hold or not."""
    return isinstance(value, Comparison | Negation | AllOf)


def compare(relation: str, left: Any, right: Any) -> Condition:
    """Return the comparison, or its truth if both operands are plain numbers or the same."""
    if not _is_symbolic(left) and not _is_symbolic(right):
        return bool(RELATIONS[relation](left, right))
    if left is right and not is_float_expression(left):
        return bool(RELATIONS[relation](0, 0))
    return Comparison(relation, left, right)


def identical(symbol: sympy.Symbol, value: float) -> Condition:
    """Return the condition that a float has the bits of this float: a NaN, or a zero's sign."""
    if value != value:
        return compare("!=", symbol, symbol)
    same = compare("==", symbol, value)
    return same if value else all_of([same, compare("==", Sign(symbol), math.copysign(1.0, value))])


def _is_symbolic(value: Any) -> bool:
    return isinstance(value, sympy.Basic)


def all_of(parts: Iterable[Condition]) -> Condition:
    """Return a condition that is true if all parts are; known parts drop out."""
    return _joined(AllOf, True, parts)


def any_of(parts: Iterable[Condition]) -> Condition:
    """Return a condition that is true if any part is; known parts drop out."""
    return _joined(AnyOf, False, parts)


def _joined(kind: type[AllOf | AnyOf], neutral: bool, parts: Iterable[Condition]) -> Condition:
    rest = tuple(part for part in parts if part is not neutral)
    if (not neutral) in rest:
        return not neutral
    return kind(rest) if len(rest) > 1 else rest[0] if rest else neutral


def opposite(condition: Condition) -> Condition:
    """Return the condition that is true where `condition` is false."""
    return not condition if isinstance(condition, bool) else condition.opposite()


def holds(condition: Condition, values: dict[sympy.Symbol, Any]) -> bool:
    """Return whether a condition holds for these values of its symbols."""
    if isinstance(condition, bool):
        return condition
    if isinstance(condition, Comparison):
        left, right = (value_of(side, values) for side in (condition.left, condition.right))
        return bool(RELATIONS[condition.relation](left, right))
    if isinstance(condition, Negation):
        return not holds(condition.part, values)
    combine = any if isinstance(condition, AnyOf) else all
    return combine(holds(part, values) for part in condition.parts)


def map_condition(condition: Condition, change: Callable[[Any], Any]) -> Condition:
    """Return the same condition of changed operands."""
    return condition if isinstance(condition, bool) else condition.map(change)
