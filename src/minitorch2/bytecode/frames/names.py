"""The names of a frame's variables, in generated Python."""

from __future__ import annotations

from types import CodeType

from minitorch2.graph.scope import Scope


def names_of(code: CodeType) -> frozenset[str]:
    """Return all names that a code object mentions."""
    return frozenset((*variables_of(code), *code.co_names))


def variables_of(code: CodeType) -> tuple[str, ...]:
    """Return all variables of a code object: its parameters first."""
    return tuple(dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars)))


def parameter_names(code: CodeType, count: int) -> tuple[str, ...]:
    """Return the first variables as identifiers: ``.0`` (of a comprehension) is ``implicit_0``."""
    names = Scope(names_of(code))
    return tuple(
        name if name.isidentifier() else names.fresh(f"implicit_{name.strip('.')}")
        for name in code.co_varnames[:count]
    )
