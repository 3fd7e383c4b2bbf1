"""The errors of the bytecode machine, which say why it refuses something."""

from __future__ import annotations

from minitorch2.errors import UnsupportedError


class BytecodeError(UnsupportedError):
    """A code object or an instruction list has no form in the canonical grammar.

    A frame of such code runs in Python.
    """

    default_code = "bytecode"


class ContinuationError(UnsupportedError):
    """No continuation function can start at this instruction; the whole frame runs in Python."""

    default_code = "no-continuation"
