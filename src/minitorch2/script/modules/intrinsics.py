"""Functions with a meaning for the compiler, and what they do where Python runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch.futures import Future

from minitorch2.script.runtime import fork_join

__all__ = [
    "Future",
    "annotate",
    "export",
    "fork",
    "ignore",
    "interface",
    "is_scripting",
    "unused",
    "wait",
]
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)
_MARK = "__minitorch2_script__"


def ignore(function: F) -> F:
    """Leave a function to Python: a graph calls it as it is. That graph cannot be saved."""
    setattr(function, _MARK, "ignore")
    return function


def unused(function: F) -> F:
    """Leave a function out: a graph that would call it raises an exception instead."""
    setattr(function, _MARK, "unused")
    return function


def export(function: F) -> F:
    """Compile a method of a module although `forward` does not call it."""
    setattr(function, _MARK, "export")
    return function


def interface(cls: C) -> C:
    """Return a class that names methods: a value annotated with it keeps the type that it has.

    A graph knows the class of each object. So a function is compiled for each class of objects that
    it is called with, and a class without the methods is an error where they are called.
    """
    return cls


def annotate(_type: Any, value: T) -> T:
    """Return a value; in compiled code it has the type that is given first."""
    return value


def is_scripting() -> bool:
    """Return False; in compiled code it is True, and the other branch is not compiled."""
    return False


def fork(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Begin a call on another thread; return a future for `wait`."""
    return fork_join.fork(lambda: function(*args, **kwargs))


def wait(future: Any) -> Any:
    """Return the result of a future, once it is there."""
    return fork_join.wait(future)
