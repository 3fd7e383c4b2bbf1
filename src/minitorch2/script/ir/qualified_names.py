"""Names of classes in graphs and files: qualified, and unique in this process."""

from __future__ import annotations

from typing import Final

_NAMES: Final[set[str]] = set()


def qualified_name(python_class: type) -> str:
    """Return the name of a class in graphs and files."""
    name = f"__torch__.{python_class.__module__}.{python_class.__qualname__}"
    return name.replace("__torch__.__main__.", "__torch__.").replace(".<locals>", "")


def unique_name(base: str) -> str:
    """Return a qualified name that no other type of this process has."""
    name, count = base, 0
    while name in _NAMES:
        head, _, tail = base.rpartition(".")
        name, count = f"{head}.___minitorch2_mangle_{count}.{tail}", count + 1
    _NAMES.add(name)
    return name
