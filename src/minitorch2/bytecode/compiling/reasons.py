"""The reasons why a graph breaks: every stable code, its meaning, and the user's remedy.

    reason ::= code, meaning, remedy

The table is `reasons.toml`. Whoever raises `unsupported("new-code", ...)` adds its entry there; a
test compares the table with the source, both ways. `docs/graph_breaks.md` shows the table with an
example of each reason.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from minitorch2.errors import UnsupportedError
from minitorch2.errors.codes import ErrorCode, read_codes

COMMAND = "python -m minitorch2 why"
"""The command that explains each reason."""


@cache
def reasons() -> dict[str, ErrorCode]:
    """Return every reason by its code; the table is read when a graph breaks first."""
    return read_codes(Path(__file__).with_suffix(".toml"))


def remedy_of(error: UnsupportedError) -> str:
    """Return the change that helps the user: the error's own fix, or else the table's."""
    reason = reasons().get(error.code)
    return error.fix or ("" if reason is None else reason.remedy)


def page_of(code: str) -> str:
    """Return the command that explains a reason; empty if there is none."""
    return f"{COMMAND} {code}" if code in reasons() else ""
