"""The reasons why a graph breaks: every stable code, its meaning, and the user's remedy.

    reason ::= code, meaning, remedy

The table is `reasons.toml`. Whoever raises `unsupported("new-code", ...)` adds its entry there; a
test compares the table with the source, both ways. `docs/graph_breaks.md` shows the table with an
example of each reason.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from minitorch2.errors import UnsupportedError

COMMAND = "python -m minitorch2 why"
"""The command that explains each reason."""


@dataclass(frozen=True)
class Reason:
    """One way in which a graph can end early.

    Attributes:
        code: stable name; never reused for another meaning.
        meaning: the construct that capture met, in the user's terms.
        remedy: the change that usually helps.
    """

    code: str
    meaning: str
    remedy: str


@cache
def reasons() -> dict[str, Reason]:
    """Return every reason by its code; the table is read when a graph breaks first."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {code: Reason(code, **fields) for code, fields in table.items()}


def remedy_of(error: UnsupportedError) -> str:
    """Return the change that helps the user: the error's own fix, or else the table's."""
    reason = reasons().get(error.code)
    return error.fix or ("" if reason is None else reason.remedy)


def page_of(code: str) -> str:
    """Return the command that explains a reason; empty if there is none."""
    return f"{COMMAND} {code}" if code in reasons() else ""
