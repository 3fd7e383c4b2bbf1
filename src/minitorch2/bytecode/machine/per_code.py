"""What is computed once for each code object, and forgotten when the code object dies."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from types import CodeType
from typing import TypeVar

T = TypeVar("T")


def once_per_code(compute: Callable[[CodeType], T]) -> Callable[[CodeType], T]:
    """Cache a function of a code object; the decorator `functools.cache` would keep the code alive.

    The result must not refer to the code object. Code is known by its identity: equal code objects
    may differ in file and qualified name.
    """
    known: dict[int, tuple[weakref.ref[CodeType], T]] = {}

    @functools.wraps(compute)
    def cached(code: CodeType) -> T:
        key = id(code)
        entry = known.get(key)
        if entry is None:
            life = weakref.ref(code, lambda _: known.pop(key, None))
            entry = known[key] = life, compute(code)
        return entry[1]

    return cached
