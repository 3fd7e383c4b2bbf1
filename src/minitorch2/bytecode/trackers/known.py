"""Values that are an object of the running program: modules, classes, functions of libraries."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from minitorch2.bytecode.trackers.base import VariableTracker

if TYPE_CHECKING:
    from minitorch2.bytecode.evaluator import Evaluator


class KnownObjectVariable(VariableTracker):
    """An object that is itself known while capturing; equal only to itself, and true."""

    def __init__(self, value: Any, **options: Any) -> None:
        super().__init__(**options)
        self.value = value

    def python_type(self) -> type:
        return type(self.value)

    def hash_key(self) -> Hashable:
        return ("object", id(self.value))

    def truth(self, evaluator: Evaluator) -> bool:
        return True
