"""Values that hold inside of a block: of a context variable, or of an attribute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


class holding(AbstractContextManager[T]):
    """Gives a context variable a value inside of the block, and gives the value to the block.

    This is not a generator: an interrupted generator would reset the variable when it is collected,
    in whatever context that happens.
    """

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[T], value: T) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> T:
        self._token = self._variable.set(self._value)
        return self._value

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._variable.reset(self._token)
        except ValueError:  # a generator around it was cut off, and is closed in another context
            if kind is not GeneratorExit:
                raise


@contextmanager
def replacing(owner: object, attribute: str, value: T) -> Iterator[T]:
    """Give an object's attribute a value inside of the block; return the value."""
    outer = getattr(owner, attribute)
    setattr(owner, attribute, value)
    try:
        yield value
    finally:
        setattr(owner, attribute, outer)
