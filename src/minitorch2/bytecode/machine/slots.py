"""The local slots of a frame ("localsplus"): plain locals, then cells, then free variables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import CodeType

from minitorch2.bytecode.machine.errors import BytecodeError


@dataclass(frozen=True)
class Slots:
    """Names of the slots by kind.

    A name in both `varnames` and `cellvars` has one slot (made a cell in place); one in both
    `varnames` and `freevars` has two (inlined comprehensions, PEP 709).
    """

    varnames: tuple[str, ...]
    cellvars: tuple[str, ...]
    freevars: tuple[str, ...]

    @classmethod
    def of(cls, code: CodeType) -> Slots:
        """Return the slots of an existing code object."""
        return cls(code.co_varnames, code.co_cellvars, code.co_freevars)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of each slot, in slot order."""
        own_cells = tuple(name for name in self.cellvars if name not in self.varnames)
        return self.varnames + own_cells + self.freevars

    def fast(self, name: str) -> int:
        """Return the slot that LOAD_FAST and its like mean by a name."""
        return self._index(name, self.names)

    def deref(self, name: str) -> int:
        """Return the slot that LOAD_DEREF and its like mean by a name: its cell."""
        if name in self.cellvars:
            return self._index(name, self.names)
        return len(self.names) - len(self.freevars) + self._index(name, self.freevars)

    def _index(self, name: str, names: tuple[str, ...]) -> int:
        try:
            return names.index(name)
        except ValueError:
            raise BytecodeError(f"variable {name!r} has no slot in {self}") from None
