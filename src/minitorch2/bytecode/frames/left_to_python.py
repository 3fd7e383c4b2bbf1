"""Instructions that have no handler, and the constructs of a program that are made of them.

A frame that comes to one ends its graph there and runs on in Python. So do frames whose code is not
a function's. Handlers and this table together are all instructions of all supported versions.
"""

from __future__ import annotations

from typing import Final

LEFT_TO_PYTHON: Final[dict[str, str]] = {
    **dict.fromkeys(("CHECK_EG_MATCH", "PREP_RERAISE_STAR"), "an `except*` clause"),
    "IMPORT_STAR": "`from ... import *`",
    "PRINT_EXPR": "a line of an interactive session",
    **dict.fromkeys(("CALL_INTRINSIC_1", "CALL_INTRINSIC_2"), "type parameters"),
}
"""The construct of a program that has such an instruction, by the instruction's canonical name."""


def cause_of(opname: str) -> str:
    """Return the reason why an instruction is left to Python, in the user's terms."""
    what = LEFT_TO_PYTHON.get(opname, "an instruction that is not known")
    return f"{what} is left to Python ({opname})"
