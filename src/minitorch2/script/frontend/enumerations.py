"""Enumerations of Python: members are values of the graph, classes are sequences of them.

A comparison of members that are known is decided while a program is compiled
(TorchScript reference, "Enum Type").
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, Flag
from typing import Any

from minitorch2.script.frontend.emission import Arguments, Emission, SugaredValue
from minitorch2.script.frontend.python_values import (
    ClassValue,
    ObjectValue,
    register_sugar,
    to_sugared_value,
)
from minitorch2.script.ir.graph import Value
from minitorch2.script.ir.types import is_enumeration
from minitorch2.script.syntax.source import SourceRange


@dataclass(frozen=True)
class MemberValue(ObjectValue):
    """A member of an enumeration."""

    first_class = True

    def describe(self) -> str:
        return f"the member {type(self.object).__qualname__}.{self.object.name}"

    def constant(self) -> Any:
        return self.object

    def as_value(self, emission: Emission, where: SourceRange) -> Value:
        return emission.constant(self.object, where)


@dataclass(frozen=True)
class EnumerationValue(ClassValue):
    """A class of members, in the order of their definition."""

    def items(self, emission: Emission, where: SourceRange) -> list[SugaredValue] | None:
        return [to_sugared_value(member, where, self.constants) for member in self.object]

    def call(self, emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
        known = [given.constant() for given in arguments.all()]
        if len(known) == 1 and known[0] in [member.value for member in self.object]:
            return to_sugared_value(self.object(known[0]), where, self.constants)
        what = "is called with a value that is none of its members', or not known"
        fix = "compare with the values of its members"
        raise self.refuse(what, where, code="script-wrong-arguments", fix=fix)


register_sugar(lambda given: isinstance(given, Enum) and not isinstance(given, Flag), MemberValue)
register_sugar(is_enumeration, EnumerationValue)
