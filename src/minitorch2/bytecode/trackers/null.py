"""Items of the evaluation stack that are not Python values."""

from __future__ import annotations

from typing import Final

from minitorch2.bytecode.trackers.base import VariableTracker


class NullVariable(VariableTracker):
    """The NULL that CPython keeps below the arguments of a call without a bound ``self``."""

    def __repr__(self) -> str:
        return "NULL"


NULL: Final = NullVariable()
