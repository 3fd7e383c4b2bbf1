"""The items of arguments that hold others: tuples, lists, dicts and slices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def items_in(value: Any) -> Iterable[Any]:
    """Return the items of a tuple, list, dict or slice; any other argument has none."""
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, slice):
        return (value.start, value.stop, value.step)
    return value if isinstance(value, (tuple, list)) else ()
