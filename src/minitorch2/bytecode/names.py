"""Variable names in generated Python."""

from __future__ import annotations

import re
from typing import Final

CAPTURING: Final = "__capturing"
"""Private name of the context in which calls made by residual code are captured."""


def identifier(name: str) -> str:
    """A local variable's name as an identifier: ``.0`` (of a comprehension) -> ``implicit_0``."""
    return name if name.isidentifier() else "implicit_" + re.sub(r"\W", "", name)
