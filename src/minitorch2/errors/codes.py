"""The codes of errors: their meanings and remedies, read from tables.

    code ::= code, meaning, remedy

`codes.toml` has all codes but those of graph breaks: these are in `compiling/reasons.toml`.
`python -m minitorch2 why CODE` prints both. Tests compare the tables with the source, both ways.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True)
class ErrorCode:
    """A kind of error or of graph break.

    Attributes:
        code: stable name; never reused for another meaning.
        meaning: what is the matter, in the user's terms.
        remedy: what usually helps.
    """

    code: str
    meaning: str
    remedy: str


def read_codes(path: Path) -> dict[str, ErrorCode]:
    """Return every kind of a table by its code."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return {code: ErrorCode(code, **fields) for code, fields in table.items()}


ERROR_CODES: Final = read_codes(Path(__file__).with_suffix(".toml"))
"""Every kind of error by its code."""
