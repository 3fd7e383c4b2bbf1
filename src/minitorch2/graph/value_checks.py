"""Checks of values that an operator makes and its compiled form would not make.

A decomposition, or a composite function on fake tensors, computes the same as an operator, but does
not refuse the same values. This module adds the operator's checks as assertions::

    binary_cross_entropy(x, t)    -->    assert all(0 <= x <= 1);  the formula

An assertion is an operator of the graph without a result (`raising.is_assertion`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor

aten = torch.ops.aten


def _assert_all(condition: Tensor, message: str) -> None:
    aten._assert_async.msg(condition.all(), message)


def _assert_within(x: Tensor, low: float, high: float, message: str) -> None:
    _assert_all((x >= low) & (x <= high), message)


def binary_cross_entropy(x: Tensor, target: Tensor, *_: Any, **__: Any) -> None:
    """Check that input and target are probabilities; NaN is refused."""
    for name, given in (("input", x), ("target", target)):
        _assert_within(given, 0, 1, f"all elements of {name} should be between 0 and 1")


def one_hot(classes: Tensor, num_classes: int = -1) -> None:
    """Check that classes are counted from 0, and are less than their number."""
    _assert_all(classes >= 0, "Class values must be non-negative.")
    if num_classes != -1:
        _assert_all(classes < num_classes, "Class values must be smaller than num_classes.")


def max_unpool(x: Tensor, indices: Tensor, size: Sequence[Any], *_: Any) -> None:
    """Check that each maximum goes back to a place in its own image."""
    _assert_all((indices >= 0) & (indices < math.prod(size)), "Found an invalid max index")


def bernoulli(p: Tensor, **_: Any) -> None:
    """Check that the probabilities are between 0 and 1."""
    _assert_within(p, 0, 1, "Expected p_in >= 0 && p_in <= 1 to be true, but got false.")


VALUE_CHECKS: Final[dict[Callable[..., Any], Callable[..., None]]] = {
    aten.binary_cross_entropy.default: binary_cross_entropy,
    aten.bernoulli.default: bernoulli,
    aten.max_unpool2d.default: max_unpool,
    aten.max_unpool3d.default: max_unpool,
    torch.nn.functional.one_hot: one_hot,
}
"""Operator or function to a function of the same arguments, which raises or records assertions."""


def check_values(func: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Make the checks of a call, if there are any.

    Raises:
        RuntimeError: the values are known, and refused.
    """
    check = VALUE_CHECKS.get(func)
    if check is not None:
        with torch.no_grad():
            check(*args, **kwargs)
