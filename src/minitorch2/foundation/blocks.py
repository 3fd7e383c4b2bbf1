"""Values that hold inside of a block: of a context variable, or of an attribute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def holding(variable: ContextVar[T], value: T) -> Iterator[T]:
    """Give a context variable a value inside of the block; return the value."""
    token = variable.set(value)
    try:
        yield value
    finally:
        with suppress(ValueError):  # cut off by a signal, and collected in another context
            variable.reset(token)


@contextmanager
def replacing(owner: object, attribute: str, value: T) -> Iterator[T]:
    """Give an object's attribute a value inside of the block; return the value."""
    outer = getattr(owner, attribute)
    setattr(owner, attribute, value)
    try:
        yield value
    finally:
        setattr(owner, attribute, outer)
