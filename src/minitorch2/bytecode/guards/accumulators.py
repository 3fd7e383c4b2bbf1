"""The guard on hooks that would see a leaf's gradient when it is accumulated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from minitorch2.bytecode.guards.guard import Check, SourceGuard
from minitorch2.native.cpython.guard_machine import Op
from minitorch2.native.torch_internals.accumulators import is_hooked


@dataclass(frozen=True)
class NoAccumulatorHooks(SourceGuard):
    """A leaf whose gradient no hook sees when it is accumulated."""

    KIND = "GRADIENT_HOOKS"

    def checks(self) -> Iterable[Check]:
        return (Check("hooks on its accumulation", Op.PYTHON, False, (is_hooked,)),)
