"""What the bytecode machine refuses to do, as errors that say why."""

from __future__ import annotations

from minitorch2.errors import MinitorchError, UnsupportedError


class UnsupportedPythonError(MinitorchError):
    """This interpreter is one that the machine does not know (its version, or its frame layout)."""

    default_code = "unsupported-python"


class BytecodeError(UnsupportedError):
    """A code object or an instruction list breaks a rule of the canonical grammar, or has no form
    in it; a frame of such code runs in Python.
    """

    default_code = "bytecode"


class ContinuationError(UnsupportedError):
    """No continuation function can start at this instruction; the whole frame runs in Python."""

    default_code = "no-continuation"
