"""A cache of results for each code object, forgotten when the code object dies."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Generic, TypeVar

T = TypeVar("T")


class once_per_code(Generic[T]):
    """Cache a function of a code object; the decorator `functools.cache` would keep the code alive.

    The result must not refer to the code object. Code is known by its identity: equal code objects
    may differ in file and qualified name.
    """

    def __init__(self, compute: Callable[[CodeType], T]) -> None:
        self._compute = compute
        self._known: dict[int, tuple[weakref.ref[CodeType], T]] = {}
        functools.update_wrapper(self, compute)

    def __call__(self, code: CodeType) -> T:
        """Return the result for a code object."""
        entry = self._known.get(id(code))
        return self.note(code, self._compute(code)) if entry is None else entry[1]

    def note(self, code: CodeType, result: T) -> T:
        """Set the result for a code object that the caller knows already; return it."""
        known, key = self._known, id(code)
        known[key] = weakref.ref(code, lambda _: known.pop(key, None)), result
        return result
