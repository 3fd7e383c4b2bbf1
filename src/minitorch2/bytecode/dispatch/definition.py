"""The definition that binds calls of a compiled function: the user's code and its defaults.

They may be replaced later; a notebook that reloads edited code does so. New code with the same
parameters serves the next call. If the parameters or their defaults differ, it is too late: the
arguments of the call are bound already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType

from minitorch2.bytecode.frames.signature import PRIVATE, signature_of

_PLAIN = (int, float, complex, bool, str, bytes)


@dataclass(frozen=True)
class Definition:
    """The parts of a function that can be assigned."""

    code: CodeType
    defaults: tuple[object, ...] | None
    kwdefaults: Mapping[str, object] | None

    @classmethod
    def of(cls, function: FunctionType) -> Definition:
        """Return the present definition of a function."""
        return cls(function.__code__, function.__defaults__, function.__kwdefaults__)

    def binds_like(self, other: Definition) -> bool:
        """Return whether all calls give the same values to the same parameters."""
        named, others = self.kwdefaults or {}, other.kwdefaults or {}
        return (
            signature_of(self.code).header == signature_of(other.code).header
            and _alike(self.defaults or (), other.defaults or ())
            and _alike(named, others)
            and _alike(named.values(), map(others.get, named))
        )

    def names(self) -> dict[str, object]:
        """Return the names that the text of `changed` reads, without `PRIVATE`."""
        return dict(vars(self))

    def changed(self, function: str) -> str:
        """Return a Python condition: the function of this name is defined otherwise."""
        parts = [name for name, value in vars(self).items() if value is not None]
        return " or ".join(f"{function}.__{p}__ is not {PRIVATE}{p}" for p in parts)


def _alike(left: Iterable[object], right: Iterable[object]) -> bool:
    left, right = list(left), list(right)
    return len(left) == len(right) and all(map(_is_alike, left, right))


def _is_alike(left: object, right: object) -> bool:
    """Return whether no program can tell two defaults apart."""
    return left is right or (
        type(left) is type(right) and type(left) in _PLAIN and repr(left) == repr(right)
    )
