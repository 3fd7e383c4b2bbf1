"""Refinements: after ``x is not None``, the name x has no optional type.

A refinement is a narrower type of a name. `Condition` carries those that hold where the condition
is true, and those that hold where it is false; ``not``, ``and``, ``or`` combine them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from minitorch2.script.frontend.emission import Emission
from minitorch2.script.ir.graph import Value
from minitorch2.script.ir.types import BOOL, COMPLEX, FLOAT, INT, NUMBER, Type, unify
from minitorch2.script.ir.types import members as ir_members
from minitorch2.script.syntax.source import SourceRange

Refinements = Mapping[str, Type]


@dataclass(frozen=True)
class Condition:
    """A condition: its value or what is known of it, and the refinements that it gives.

    Attributes:
        value: of type bool; None if `known` is set.
        known: the result, if it is known while the function is compiled.
    """

    value: Value | None = None
    known: bool | None = None
    when_true: Refinements = field(default_factory=dict)
    when_false: Refinements = field(default_factory=dict)

    def as_value(self, emission: Emission, where: SourceRange) -> Value:
        """Return the condition as a value of type bool."""
        return emission.truth(bool(self.known), where) if self.value is None else self.value


def negated(condition: Condition, emission: Emission, where: SourceRange) -> Condition:
    """Return ``not condition``."""
    if condition.value is None:
        return Condition(None, not condition.known, condition.when_false, condition.when_true)
    value = emission.emit("aten::__not__", (condition.value,), where)
    return Condition(value, None, condition.when_false, condition.when_true)


def both(first: Refinements, second: Refinements) -> Refinements:
    """Return the refinements that hold where two conditions hold; the second knew the first."""
    return {**first, **second}


def either(first: Refinements, second: Refinements) -> Refinements:
    """Return the refinements that hold where one of two conditions holds."""
    joined = {name: unify(first[name], second[name]) for name in first.keys() & second.keys()}
    return {name: type_ for name, type_ in joined.items() if type_ is not None}


def apply(refinements: Refinements, emission: Emission, where: SourceRange) -> None:
    """Store each refined name anew, with its narrower type."""
    for name, type_ in refinements.items():
        variable = emission.environment.variable(name)
        if variable is not None and variable.type != type_:
            value = emission.cast(emission.load(name, variable, where), type_, where)
            emission.store(name, value, where)


def members(type_: Type) -> tuple[Type, ...]:
    """Return the types that a value of a type may really have."""
    numbers = (INT, FLOAT, COMPLEX)
    found = ir_members(type_)
    return tuple(each for member in found for each in (numbers if member == NUMBER else (member,)))


def joined(types: Iterable[Type]) -> Type | None:
    """Return the least type of all, numbers of several kinds being `Scalar`."""
    listed = list(dict.fromkeys(types))
    numbers = [type_ for type_ in listed if type_ in (INT, FLOAT, COMPLEX, BOOL)]
    if len(numbers) > 1:
        listed = [NUMBER, *(type_ for type_ in listed if type_ not in numbers)]
    result: Type | None = None
    for type_ in listed:
        result = type_ if result is None else unify(result, type_)
        if result is None:
            return None
    return result
