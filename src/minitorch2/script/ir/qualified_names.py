"""Names of classes in graphs and files: qualified, and unique in this process."""

from __future__ import annotations

import sys
from typing import Any, Final

_NAMES: Final[set[str]] = set()


def qualified_name(python_class: type) -> str:
    """Return the name of a class in graphs and files."""
    name = f"__torch__.{python_class.__module__}.{python_class.__qualname__}"
    return name.replace("__torch__.__main__.", "__torch__.").replace(".<locals>", "")


def class_named(name: str) -> type | None:
    """Return the class of this process whose name in files this is; None if there is none.

    It imports nothing, and runs no code of modules.
    """
    parts = [part for part in name.split(".")[1:] if not part.startswith("___")]
    for split in range(len(parts) - 1, -1, -1):
        found: Any = sys.modules.get(".".join(parts[:split]) or "__main__")
        for part in parts[split:]:
            found = getattr(found, "__dict__", {}).get(part)
        if isinstance(found, type):
            return found
    return None


def unique_name(base: str) -> str:
    """Return a qualified name that no other type of this process has."""
    name, count = base, 0
    while name in _NAMES:
        head, _, tail = base.rpartition(".")
        name, count = f"{head}.___minitorch2_mangle_{count}.{tail}", count + 1
    _NAMES.add(name)
    return name
