"""Numbers and strings that change from call to call: only their type is known.

A constant is guarded to stay the same. If that guard keeps failing (a loss printed each step, a
counter), the value is captured anew as opaque. It can be passed on, and residual code makes the
computations with it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NoReturn

from minitorch2.bytecode.trackers.base import VariableTracker, unsupported


class OpaqueVariable(VariableTracker):
    """A value of a known class; it is loaded from its source."""

    def __init__(self, cls: type, **options: Any) -> None:
        super().__init__(**options)
        self.cls = cls

    def python_type(self) -> type:
        return self.cls

    def refuse(self) -> NoReturn:
        """Leave to Python what needs the value."""
        unsupported("varying-value", f"{self.source} changes from call to call")

    def get_attribute(self, evaluator: object, name: str) -> VariableTracker:
        return self.refuse()

    def hash_key(self) -> Hashable:
        return self.refuse()
