"""Code objects, which only MAKE_FUNCTION reads."""

from __future__ import annotations

from types import CodeType

from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.interfaces import Residual
from minitorch2.bytecode.trackers.python_values.constant import literal


class CodeVariable(VariableTracker):
    """A code object among the constants of a function."""

    def __init__(self, code: CodeType) -> None:
        super().__init__()
        self.code = code

    def python_type(self) -> type:
        return CodeType

    def reconstruct(self, residual: Residual) -> str:
        return residual.reference(self.code, f"code_of_{self.code.co_name}")


def literal_or_code(value: object) -> VariableTracker:
    """Return the tracker of an operand of LOAD_CONST."""
    return CodeVariable(value) if isinstance(value, CodeType) else literal(value)
