"""The error of an interpreter that the native floor does not know."""

from __future__ import annotations

from minitorch2.errors import MinitorchError


class UnsupportedPythonError(MinitorchError):
    """This interpreter is one that is not known here (its version, or its frame layout)."""

    default_code = "unsupported-python"
