"""What this process has added to the compiler: passes, decompositions, lowerings of the user's.

Nothing that is kept for other processes may depend on them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

EXTENSIONS: list[str] = []
"""The names of the functions that were registered, in order."""


def note_extension(function: Callable[..., Any]) -> None:
    """A function is registered with the compiler; PyTorch's and our own do not count."""
    module = getattr(function, "__module__", None) or ""
    if module.split(".")[0] not in ("minitorch2", "torch"):
        EXTENSIONS.append(f"{module}.{getattr(function, '__qualname__', function)}")
