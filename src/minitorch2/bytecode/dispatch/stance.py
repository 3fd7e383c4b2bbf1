"""Stances: the behaviour of compiled functions in calls, changed for the whole process at once.

    stance ::= default
            |  force_eager             every call runs the user's function
            |  eager_on_recompile      a call that no entry serves runs the user's function
            |  fail_on_recompile       such a call is an error
            |  eager_then_compile      the first call of a function runs in Python
            |  aot_eager_then_compile  the first call runs operators one by one, as backward does

A dispatcher walks a list of entries. A stance chooses the entries in that list, and the action
behind its end. The default stance costs a call nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from minitorch2.bytecode.compiling.compile_frame import Backend
from minitorch2.bytecode.compiling.compiled_frame import BoundEntry, canonical
from minitorch2.bytecode.guards.guard_function import compile_guards
from minitorch2.foundation.blocks import holding

NAMES = (
    "default",
    "force_eager",
    "eager_on_recompile",
    "fail_on_recompile",
    "eager_then_compile",
    "aot_eager_then_compile",
)

FIRST_CALL_DIFFERS = ("eager_then_compile", "aot_eager_then_compile")
"""Stances in which the first call of a function is not compiled for good."""


@dataclass(frozen=True)
class Stance:
    """A stance and its refinements.

    Attributes:
        name: one of `NAMES`.
        skip_guards: look only at guards in which entries differ.
        backend: compiles in place of every region's own backend; only its entries are used.
        first_backend: compiles for the first call only; without it that call runs in Python.
    """

    name: str = "default"
    skip_guards: bool = False
    backend: Backend | None = None
    first_backend: Backend | None = None


_current = Stance()


def current() -> Stance:
    """Return the stance of the process."""
    return _current


def replace_current(stance: Stance) -> Stance:
    """Take another stance and return the previous one; dispatchers must show their entries anew."""
    global _current
    previous, _current = _current, stance
    return previous


_BACKEND: ContextVar[Backend | None] = ContextVar("backend", default=None)


def compiling_with(backend: Backend | None) -> AbstractContextManager[object]:
    """Compile with this backend inside the block."""
    return holding(_BACKEND, backend)


def forced_backend() -> Backend | None:
    """Return the backend that replaces a region's own here; None if none does."""
    return _BACKEND.get() or _current.backend


# The entries that a dispatcher shows --------------------------------------------------------------

Run = Callable[..., Any]
Entry = tuple[Callable[..., bool], Run]


def shown_entries(
    bound: Collection[BoundEntry], function: FunctionType, call_original: Callable[[], Run]
) -> list[Entry]:
    """Return the entries that calls of a function try now.

    Args:
        bound: all entries of the function.
        function: the user's function.
        call_original: gives the function that calls it with all parameters positionally.
    """
    if _current.name == "force_eager":
        return [(_always, call_original())]
    entries = [entry for entry in bound if entry.compiled.forced_backend is _current.backend]
    if _current.skip_guards:
        return _differing(entries, function)
    return [(entry.check, entry.run) for entry in entries]


def _always(*values: object) -> bool:
    return True


def _differing(entries: list[BoundEntry], function: FunctionType) -> list[Entry]:
    """Return entries that check nothing but the guards which not all of them have."""
    sets = [set(entry.compiled.guards.guards) for entry in entries]
    common = set.intersection(*sets) if sets else set()
    shown: list[Entry] = []
    for entry in entries:
        guards = [guard for guard in entry.compiled.guards.guards if guard not in common]
        checks = compile_guards(guards, canonical(function), entry.compiled.guard_references)
        shown.append((checks.check, entry.run))
    return shown
