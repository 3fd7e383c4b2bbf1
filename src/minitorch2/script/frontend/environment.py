"""Names of a function while it is compiled: frames of types and of sugared values.

A name of a first-class value has a type here, and its value travels through ``prim::Store`` and
``prim::Load``. A name of anything else, such as a module, has a sugared value, and is set once
(TorchScript overview, Environment).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Generic, TypeVar

from minitorch2.script.ir.types import Type, unify
from minitorch2.script.syntax.source import SourceRange

Sugar = TypeVar("Sugar")


@dataclass(frozen=True)
class Variable:
    """A name of a first-class value: its type from here on, and where it was set.

    Attributes:
        declared: the type that the user wrote for this name, if any.
        known: the bool or member that it was set to, if a branch on it is decided while compiling.
    """

    type: Type
    where: SourceRange
    declared: Type | None = None
    known: bool | Enum | None = None


@dataclass
class Frame(Generic[Sugar]):
    """Names that are set in one block, and why others of them cannot be used after it.

    Attributes:
        repeats: the block is of a loop, so that its end may set names that its begin reads.
    """

    variables: dict[str, Variable] = field(default_factory=dict)
    sugared: dict[str, Sugar] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    repeats: bool = False
    exited: bool = False
    """Nothing runs after the last statement: it returned, raised, broke or continued."""

    def forget(self, name: str) -> None:
        for table in (self.variables, self.sugared, self.lost):
            table.pop(name, None)


class Environment(Generic[Sugar]):
    """A stack of frames, one for each block that is being compiled."""

    def __init__(self) -> None:
        self.frames: list[Frame[Sugar]] = [Frame()]

    @property
    def frame(self) -> Frame[Sugar]:
        """The innermost frame."""
        return self.frames[-1]

    def find(self, name: str) -> Variable | Sugar | None:
        """Return what a name stands for here; None if it has no value on every way to here."""
        for frame in reversed(self.frames):
            if name in frame.lost:
                return None
            if name in frame.variables:
                return frame.variables[name]
            if name in frame.sugared:
                return frame.sugared[name]
        return None

    def variable(self, name: str) -> Variable | None:
        """Return the variable of a name, or None."""
        found = self.find(name)
        return found if isinstance(found, Variable) else None

    def known(self, name: str) -> bool | Enum | None:
        """Return the bool or member that a name surely has here; None if it is not known."""
        for frame in reversed(self.frames):
            if name in frame.variables:
                return frame.variables[name].known
            if frame.repeats or name in frame.lost or name in frame.sugared:
                return None
        return None

    def forget_known(self, name: str) -> None:
        """Let a variable be one that a loop may have set."""
        if (found := self.variable(name)) is not None and found.known is not None:
            self.set_variable(name, replace(found, known=None))

    def why_lost(self, name: str) -> str | None:
        """Say why a name that was set somewhere has no value here."""
        for frame in reversed(self.frames):
            if name in frame.lost:
                return frame.lost[name]
        return None

    def set_variable(self, name: str, variable: Variable) -> None:
        self.frame.forget(name)
        self.frame.variables[name] = variable

    def set_sugared(self, name: str, value: Sugar) -> None:
        self.frame.forget(name)
        self.frame.sugared[name] = value

    def remove(self, name: str, reason: str) -> None:
        """Make a name unknown from here on."""
        self.frame.forget(name)
        self.frame.lost[name] = reason

    def join(self, first: Frame[Sugar], second: Frame[Sugar]) -> None:
        """Set names as they are after an if whose branches had these frames."""
        if first.exited and second.exited:
            self.frame.exited = True
        elif first.exited or second.exited:
            self._take(second if first.exited else first)
        else:
            for name in [*_names(first), *(name for name in _names(second))]:
                self._join_name(name, first, second)

    def _take(self, frame: Frame[Sugar]) -> None:
        for name, variable in frame.variables.items():
            self.set_variable(name, variable)
        for name, value in frame.sugared.items():
            self.set_sugared(name, value)
        for name, reason in frame.lost.items():
            self.remove(name, reason)

    def _join_name(self, name: str, first: Frame[Sugar], second: Frame[Sugar]) -> None:
        values = [self._in_branch(name, frame) for frame in (first, second)]
        if all(isinstance(value, Variable) for value in values):
            self._join_variables(name, *(value for value in values if isinstance(value, Variable)))
        elif values[0] is values[1] and values[0] is not None:
            self._take(Frame(sugared={name: first.sugared[name]}))
        else:
            reasons = [frame.lost[name] for frame in (first, second) if name in frame.lost]
            default = f"{name} is set in one branch of an if only"
            self.remove(name, reasons[0] if reasons else default)

    def _in_branch(self, name: str, frame: Frame[Sugar]) -> Variable | Sugar | None:
        if name in frame.lost:
            return None
        return frame.variables.get(name) or frame.sugared.get(name) or self.find(name)

    def _join_variables(self, name: str, first: Variable, second: Variable) -> None:
        type_ = unify(first.type, second.type)
        if type_ is None:
            lines = f"in line {first.where.line} and {second.type} in line {second.where.line}"
            self.remove(name, f"{name} has two types: {first.type} {lines}")
            return
        declared = first.declared if first.declared == second.declared else None
        self.set_variable(name, Variable(type_, second.where, declared))


def _names(frame: Frame[Sugar]) -> dict[str, None]:
    return dict.fromkeys([*frame.variables, *frame.sugared, *frame.lost])
