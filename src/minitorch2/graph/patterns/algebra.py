"""Rules of ``simplify_algebra``: laws that hold for every bit, NaN and signed zero included.

So ``x + 0`` stays for floats (``-0.0 + 0`` is ``0.0``), as does ``x * 0`` (``inf * 0`` is NaN).
They are for functional graphs: where ``x`` may be written to, ``x * 1`` is a copy and ``x`` is
not.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from minitorch2.graph.dtypes import holds_values_of
from minitorch2.graph.patterns.rule import rule

aten = torch.ops.aten
_FAMILY = "simplify_algebra"


def _is_integral(x: Tensor) -> bool:
    return not x.dtype.is_floating_point and not x.dtype.is_complex


def _is_one(one: float, **_: Any) -> bool:
    return one == 1


@rule(_FAMILY, when=_is_one)
def product_with_one(x: Tensor, one: float) -> tuple[Any, Any]:
    """``x * 1 --> x``"""
    return x * one, x


@rule(_FAMILY, when=_is_one)
def quotient_by_one(x: Tensor, one: float) -> tuple[Any, Any]:
    """``x / 1 --> x``"""
    return x / one, x


@rule(_FAMILY, when=_is_one)
def first_power(x: Tensor, one: float) -> tuple[Any, Any]:
    """``x ** 1 --> x``"""
    return x**one, x


@rule(_FAMILY, when=lambda x, zero: zero == 0 and _is_integral(x))
def product_with_zero(x: Tensor, zero: float) -> tuple[Any, Any]:
    """``x * 0 --> 0 if x holds integers``"""
    return x * zero, aten.full_like.default(x, 0)


@rule(_FAMILY, when=lambda x, zero: zero == 0 and (_is_integral(x) or math.copysign(1, zero) < 0))
def sum_with_zero(x: Tensor, zero: float) -> tuple[Any, Any]:
    """``x + 0 --> x if x holds integers, or the zero is -0.0``"""
    return x + zero, x


@rule(_FAMILY, when=lambda x, zero: zero == 0 and (_is_integral(x) or math.copysign(1, zero) > 0))
def difference_with_zero(x: Tensor, zero: float) -> tuple[Any, Any]:
    """``x - 0 --> x if x holds integers, or the zero is not -0.0``"""
    return x - zero, x


@rule(_FAMILY)
def double_negation(x: Tensor) -> tuple[Any, Any]:
    """``-(-x) --> x``"""
    return torch.neg(-x), x


@rule(_FAMILY)
def double_complement(x: Tensor) -> tuple[Any, Any]:
    """``~(~x) --> x``"""
    return ~(~x), x


@rule(_FAMILY, when=lambda x: x.dtype == torch.bool)
def double_not(x: Tensor) -> tuple[Any, Any]:
    """``not (not x) --> x if x holds truth values``"""
    return torch.logical_not(torch.logical_not(x)), x


@rule(_FAMILY, when=lambda x: x.dtype.is_signed)
def absolute_negative(x: Tensor) -> tuple[Any, Any]:
    """``abs(-x) --> abs(x) if x holds signed numbers``"""
    return torch.abs(-x), aten.abs.default(x)


@rule(_FAMILY)
def absolute_twice(x: Tensor) -> tuple[Any, Any]:
    """``abs(abs(x)) --> abs(x)``"""
    once = torch.abs(x)
    return torch.abs(once), once


@rule(_FAMILY)
def relu_twice(x: Tensor) -> tuple[Any, Any]:
    """``relu(relu(x)) --> relu(x)``"""
    once = torch.relu(x)
    return torch.relu(once), once


@rule(_FAMILY)
def maximum_with_itself(x: Tensor) -> tuple[Any, Any]:
    """``maximum(x, x) --> x``"""
    return torch.maximum(x, x), x


@rule(_FAMILY)
def minimum_with_itself(x: Tensor) -> tuple[Any, Any]:
    """``minimum(x, x) --> x``"""
    return torch.minimum(x, x), x


@rule(_FAMILY)
def choice_of_equals(condition: Tensor, x: Tensor) -> tuple[Any, Any]:
    """``where(condition, x, x) --> x``"""
    return torch.where(condition, x, x), x


def _holds_exactly(x: Tensor, wide: torch.dtype, narrow: torch.dtype) -> bool:
    """Return whether ``x`` has dtype ``narrow`` and ``wide`` holds every value of it."""
    return x.dtype == narrow and not wide.is_complex and holds_values_of(wide, narrow)


@rule(_FAMILY, when=_holds_exactly)
def there_and_back(x: Tensor, wide: torch.dtype, narrow: torch.dtype) -> tuple[Any, Any]:
    """``x.to(wide).to(narrow) --> x if wide holds every value of narrow, the dtype of x``"""
    return x.to(wide).to(narrow), x
