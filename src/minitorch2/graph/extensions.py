"""The user's extensions of the compiler in this process: passes, decompositions, lowerings.

Caches that other processes read must not depend on them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

EXTENSIONS: list[str] = []
"""The names of the functions that were registered, in order."""


def note_extension(function: Callable[..., Any]) -> None:
    """Note that a user's function extends the compiler; PyTorch's and our own do not count."""
    module = getattr(function, "__module__", None) or ""
    if module.split(".")[0] not in ("minitorch2", "torch"):
        EXTENSIONS.append(f"{module}.{getattr(function, '__qualname__', function)}")
