"""Weak references: calling one gives its object, or None when that has died."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from minitorch2.bytecode.sources import Naming, StepSource, plainly
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import MISSING
from minitorch2.bytecode.trackers.python_values.classes import constructs
from minitorch2.bytecode.trackers.python_values.lifetimes import is_held

if TYPE_CHECKING:
    from minitorch2.bytecode.capture import Capture
    from minitorch2.bytecode.evaluator import Evaluator
    from minitorch2.bytecode.residual import Residual


@dataclass(frozen=True, eq=False)
class CallSource(StepSource):
    """``base()``: the object that a weak reference refers to."""

    def step(self, base: str, named: Naming = plainly) -> str:
        return f"{base}()"


class WeakReferenceVariable(VariableTracker):
    """A `weakref.ref`, made here of `target`, or from outside (then `value` is the real one)."""

    def __init__(
        self,
        value: Any = MISSING,
        target: VariableTracker | None = None,
        capture: Capture | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.value, self.target, self.capture = value, target, capture

    def python_type(self) -> type:
        return weakref.ref

    def truth(self, evaluator: Evaluator) -> bool:
        return True

    def hash_key(self) -> Hashable:
        return unsupported("hash", "the hash of a weak reference is that of its object")

    def call(
        self,
        evaluator: Evaluator,
        args: Sequence[VariableTracker],
        kwargs: dict[str, VariableTracker],
    ) -> VariableTracker:
        if self.target is not None:
            if not is_held(evaluator, self.target):
                unsupported("weak-reference", "a weak reference to an object that may be dead")
            return self.target
        assert self.source is not None
        return evaluator.capture.wrap(self.value(), CallSource(self.source))

    def refers_to(self) -> list[VariableTracker]:
        return []

    def reconstruct(self, residual: Residual) -> str:
        if self.source is not None:
            return residual.load(self.source)
        assert self.target is not None
        assert self.capture is not None
        if not is_held(self.capture.evaluator, self.target):
            unsupported("weak-reference", "a weak reference to an object that may be dead")
        return f"{residual.reference(weakref.ref)}({residual.name_for(self.target)})"


@constructs(weakref.ref)
def make_weak_reference(
    evaluator: Evaluator, target: VariableTracker, callback: VariableTracker | None = None
) -> VariableTracker:
    """``weakref.ref(target)``"""
    if callback is not None and not (callback.is_constant() and callback.as_constant() is None):
        unsupported("construction", "a weak reference with a callback")
    return WeakReferenceVariable(target=target, capture=evaluator.capture)
