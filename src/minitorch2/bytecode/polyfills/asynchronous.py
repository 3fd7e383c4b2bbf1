"""`aiter` and `anext` in Python."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

_MISSING: Any = object()


def aiter_of(async_iterable: Any, /) -> Any:
    """``aiter``"""
    return type(async_iterable).__aiter__(async_iterable)


def anext_of(async_iterator: Any, default: Any = _MISSING, /) -> Any:
    """``anext``"""
    step = type(async_iterator).__anext__(async_iterator)
    return step if default is _MISSING else _or_default(step, default)


async def _or_default(step: Awaitable[Any], default: Any) -> Any:
    try:
        return await step
    except StopAsyncIteration:
        return default
