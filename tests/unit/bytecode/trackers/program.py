"""Run a small program compiled and in CPython and compare everything that can be observed."""

from __future__ import annotations

import copy
import dataclasses
from collections import deque
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import torch

import minitorch2
from minitorch2 import stages


def same(a: Any, b: Any) -> bool:
    """Equal values of equal types; NaN equals NaN; dicts in the same order."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return (
            a.shape == b.shape
            and a.dtype == b.dtype
            and a.requires_grad == b.requires_grad
            and torch.allclose(a, b, equal_nan=True)
        )
    if isinstance(a, Mapping):
        return [*a] == [*b] and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple | deque):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, torch.nn.Module):
        return same(a.state_dict(), b.state_dict())
    if isinstance(a, float) and a != a:
        return b != b
    if isinstance(a, FunctionType):
        return bool(a.__qualname__ == b.__qualname__)
    if _is_instance(a):
        return same(vars(a), vars(b))
    return bool(a == b)


def _is_instance(value: Any) -> bool:
    """Whether a value is an instance of a user's class that says nothing of equality."""
    plain = type(value).__eq__ is object.__eq__ or dataclasses.is_dataclass(value)
    return hasattr(value, "__dict__") and plain and not isinstance(value, type)


def check(
    program: Callable[..., Any],
    *args: Any,
    graphs: int | None = 1,
    breaks: int | None = 0,
    **kwargs: Any,
) -> Any:
    """Assert that the program behaves alike, compiled into so many graphs with so many breaks.

    With graphs or breaks None any number of them will do.

    The program runs twice compiled: the second run must not compile anything.
    Returns what the compiled program returned.
    """
    first, second, eager = (copy.deepcopy((args, kwargs)) for _ in range(3))
    expected = _outcome(program, *eager)
    compiled = minitorch2.compile(program, backend="eager")
    with stages.collect() as log:
        actual = _outcome(compiled, *first)
    assert same(actual, expected), f"compiled: {actual}\nCPython:  {expected}"
    assert same(first, eager), f"arguments afterwards, compiled: {first}\nCPython: {eager}"
    counted = (
        None if graphs is None else log.counts["graphs"],
        None if breaks is None else log.counts["graph_breaks"],
    )
    assert not log.counts["frames_as_is"], "a frame was not captured"
    assert counted == (graphs, breaks), f"{counted}: {log.texts('graph_break')}"
    with stages.collect() as again:
        repeated = _outcome(compiled, *second)
    assert same(repeated, expected) and same(second, eager)
    assert not again.counts["frames"], "the second call compiled something"
    return actual


def _outcome(program: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    torch.manual_seed(0)
    try:
        return program(*args, **kwargs)
    except Exception as error:
        return type(error).__name__, str(error)
