"""The names of a frame's variables, in generated Python."""

from __future__ import annotations

from types import CodeType

from minitorch2.bytecode.machine.continuation import variable_names
from minitorch2.graph.scope import Scope


def names_of(code: CodeType) -> frozenset[str]:
    """Return all names that a code object mentions."""
    return frozenset((*variable_names(code), *code.co_names))


def parameter_names(code: CodeType, count: int) -> tuple[str, ...]:
    """Return the first variables as identifiers: ``.0`` (of a comprehension) is ``implicit_0``."""
    names = Scope(names_of(code))
    return tuple(
        name if name.isidentifier() else names.fresh(f"implicit_{name.strip('.')}")
        for name in code.co_varnames[:count]
    )
