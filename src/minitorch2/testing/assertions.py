"""Comparison of a compiled function with eager PyTorch by all that a caller can see."""

from __future__ import annotations

import contextlib
import copy
import io
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import FunctionType
from typing import Any

import torch

from minitorch2.api.compiler import compile as minitorch2_compile
from minitorch2.lazy import LazyTensor, to_eager

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass
class Observation:
    """Everything that a caller can see of one call.

    Attributes:
        value: what it returned; None if it raised.
        error: name of the class and text of what it raised.
        printed: what it wrote to standard output.
        state: arguments and globals afterwards.
        sharing: which objects in the value and the state are one and the same (`sharing_of`).
    """

    value: object = None
    error: tuple[str, str] | None = None
    printed: str = ""
    state: object = field(default=None)
    sharing: list[int] = field(default_factory=list)


def observe(function: Callable[..., Any], args: Sequence[object], state: object) -> Observation:
    """Call a function with a fixed random seed; `state` is looked at afterwards."""
    seen = Observation()
    output = io.StringIO()
    torch.manual_seed(0)
    with contextlib.redirect_stdout(output):
        try:
            seen.value = function(*args)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
            seen.error = (type(error).__qualname__, str(error))
    seen.printed, seen.sharing = output.getvalue(), sharing_of([seen.value, state])
    seen.state = copy.deepcopy(state, _copies_of_results([seen.value, state]))
    return seen


def _copies_of_results(root: object) -> dict[int, Any]:
    """Copy tensors that have a gradient function without it, for `copy.deepcopy`."""
    copies: dict[int, Any] = {}
    for value in reached_from(root):
        if isinstance(value, torch.Tensor) and not value.is_leaf:
            copies[id(value)] = value.detach().clone().requires_grad_()
    return copies


def sharing_of(root: object) -> list[int]:
    """Number the objects below `root`, one number for each place that holds one.

    Places are visited in order: elements of containers, values of dicts, attributes. Equal numbers
    are the same mutable object, whose content is visited once.
    """
    numbers: dict[int, int] = {}  # the objects live as long as `root`
    return [numbers.setdefault(id(value), len(numbers)) for value in reached_from(root)]


def reached_from(root: object) -> Iterator[object]:
    """Yield the objects with an identity below `root`, for each place; enter each object once."""
    known: set[int] = set()
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if _has_identity(value):
            yield value
            if id(value) in known:
                continue
            known.add(id(value))
        waiting += reversed(_parts_of(value))


def _has_identity(value: object) -> bool:
    """Return whether a program can tell this object from an equal one without asking its id."""
    if isinstance(value, torch.Tensor | list | dict | deque | set):
        return True
    return hasattr(value, "__dict__") and not isinstance(value, _OPAQUE)


def _parts_of(value: object) -> list[object]:
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, list | tuple | deque):
        return list(value)
    attributes = getattr(value, "__dict__", {}) if _has_identity(value) else {}
    return [] if isinstance(value, torch.Tensor) else list(attributes.values())


def eager_backend(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile with the backend that changes nothing, to test capture alone."""
    return minitorch2_compile(function, backend="eager")


def assert_matches_eager(
    function: Callable[..., Any],
    *inputs: object,
    compile: Compile = eager_backend,
    calls: int = 2,
    tolerance: float = 0.0,
) -> Callable[..., Any]:
    """Check that the compiled function behaves like the function, in several calls.

    Args:
        function: the function; it may read and change its arguments.
        inputs: its arguments; each call gets a deep copy.
        compile: any compiler of PyTorch functions.
        calls: how often it is called: compiled entries must serve later calls as well.
        tolerance: absolute and relative difference allowed between numbers of tensors.

    Returns:
        the compiled function.

    Raises:
        AssertionError: something that a caller can see is different.
    """
    compiled = compile(function)
    for _ in range(calls):
        wanted_args, given_args = copy.deepcopy(inputs), copy.deepcopy(inputs)
        wanted = observe(function, wanted_args, wanted_args)
        given = observe(compiled, given_args, given_args)
        assert_same_observation(given, wanted, tolerance)
    return compiled


def assert_same_observation(
    given: Observation, wanted: Observation, tolerance: float = 0.0
) -> None:
    """Check that two calls cannot be told apart."""
    assert given.error == wanted.error, f"raised {given.error}, eager raises {wanted.error}"
    assert given.printed == wanted.printed, f"printed {given.printed!r}, not {wanted.printed!r}"
    assert_same(given.value, wanted.value, tolerance, "value")
    assert_same(given.state, wanted.state, tolerance, "state")
    message = "other objects are one and the same than in eager"
    assert given.sharing == wanted.sharing, f"{message}: {given.sharing}, {wanted.sharing}"


def assert_same(given: object, wanted: object, tolerance: float = 0.0, path: str = "value") -> None:
    """Check that two values are equal all the way down: classes, elements, tensors, attributes."""
    if isinstance(given, LazyTensor):
        given = to_eager(given)
    same_type = type(given) is type(wanted) or type(given).__name__ == type(wanted).__name__
    assert same_type, f"{path} is a {type(given)}, not a {type(wanted)}"
    if isinstance(wanted, torch.Tensor):
        assert isinstance(given, torch.Tensor)
        _assert_same_tensor(given, wanted, tolerance, path)
    elif isinstance(wanted, Mapping):
        assert isinstance(given, Mapping)
        assert list(given) == list(wanted), f"{path} has keys {list(given)}, not {list(wanted)}"
        for key in wanted:
            assert_same(given[key], wanted[key], tolerance, f"{path}[{key!r}]")
    elif isinstance(wanted, list | tuple):
        assert isinstance(given, list | tuple)
        assert len(given) == len(wanted), f"{path} has {len(given)} elements, not {len(wanted)}"
        for index, (left, right) in enumerate(zip(given, wanted, strict=True)):
            assert_same(left, right, tolerance, f"{path}[{index}]")
    elif hasattr(wanted, "__dict__") and not isinstance(wanted, _OPAQUE):
        assert_same(vars(given), vars(wanted), tolerance, f"{path}.__dict__")
    elif isinstance(wanted, _OPAQUE):
        assert str(given) == str(wanted) or isinstance(wanted, FunctionType)
    else:
        assert given == wanted or (given != given and wanted != wanted), (
            f"{path} is {given!r}, not {wanted!r}"
        )


_OPAQUE = (type, FunctionType, Enum)
"""Compared by name and no further."""


def _assert_same_tensor(
    given: torch.Tensor, wanted: torch.Tensor, tolerance: float, path: str
) -> None:
    torch.testing.assert_close(
        given,
        wanted,
        rtol=tolerance,
        atol=tolerance,
        equal_nan=True,
        check_stride=True,
        msg=lambda text: f"{path}: {text}",
    )
    assert given.requires_grad == wanted.requires_grad, f"requires_grad of {path} differs"
