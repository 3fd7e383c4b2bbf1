"""The guard on hooks that would see a leaf's gradient when it is accumulated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from minitorch2.bytecode.guards.guard import Check, Name, SourceGuard
from minitorch2.native.torch_internals.accumulators import is_hooked


@dataclass(frozen=True)
class NoAccumulatorHooks(SourceGuard):
    """A leaf whose gradient no hook sees when it is accumulated."""

    KIND = "GRADIENT_HOOKS"

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        asked = f"{name(is_hooked)}({path})"
        yield Check("hooks on its accumulation", f"not {asked}", asked, "False")
