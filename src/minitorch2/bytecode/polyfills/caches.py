"""Caches of `functools` in Python, for functions that captured code makes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any


def lru_cache_wrapper(
    user_function: Callable[..., Any],
    maxsize: int | None,
    typed: bool,
    cache_info: Callable[[int, int, int | None, int], Any],
) -> Callable[..., Any]:
    """Cache a function as `functools.lru_cache` does: a dict keeps its keys in order of use."""
    known: dict[Hashable, Any] = {}
    hits = misses = 0
    missing = object()

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        nonlocal hits, misses
        if maxsize == 0:
            misses += 1
            return user_function(*args, **kwargs)
        key: Hashable = (args, *kwargs.items())
        if len(args) == 1 and not kwargs and type(args[0]) in (int, str):
            key = args[0]  # 1 and 1.0 have entries of their own
        if typed:
            key = (key, *map(type, args), *map(type, kwargs.values()))
        result = known.pop(key, missing)
        if result is missing:
            misses += 1
            result = user_function(*args, **kwargs)
            if maxsize is not None and len(known) >= maxsize:
                del known[next(iter(known))]
        else:
            hits += 1
        known[key] = result
        return result

    def info() -> Any:
        return cache_info(hits, misses, maxsize, len(known))

    def clear() -> None:
        nonlocal hits, misses
        known.clear()
        hits = misses = 0

    wrapper.cache_info = info  # type: ignore[attr-defined]
    wrapper.cache_clear = clear  # type: ignore[attr-defined]
    return wrapper
