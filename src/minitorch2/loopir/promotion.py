"""PyTorch's type promotion, for tensors that are still boxes.

Three priorities, lowest wins only within its category (bool < integer < float < complex):
tensors with dimensions, then 0-dim tensors, then Python numbers. A lower priority changes the
dtype only if it brings a higher category, and a Python float then brings the default dtype.
Checked against `torch.result_type` over the whole matrix in the tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TypeAlias

import sympy
import torch

from minitorch2.loopir.boxes import TensorBox

Operand: TypeAlias = TensorBox | bool | int | float | sympy.Expr


class Promotion(Enum):
    """The rules for an elementwise operator's result dtype (torch's names)."""

    DEFAULT = "the promoted dtype"
    INT_TO_FLOAT = "the promoted dtype; integers and bool become the default float dtype"
    ALWAYS_BOOL = "bool, computed in the promoted dtype"
    BOOL_TO_LONG = "the promoted dtype; bool becomes int64"


def category(dtype: torch.dtype) -> int:
    """Return 0 for bool, 1 for integers, 2 for floats, 3 for complex numbers."""
    if dtype.is_complex:
        return 3
    if dtype.is_floating_point:
        return 2
    return 0 if dtype == torch.bool else 1


def dtype_of_number(value: bool | int | float | sympy.Expr) -> torch.dtype:
    """Return the dtype that a Python number (or symbolic size) has by itself."""
    if isinstance(value, bool):
        return torch.bool
    if isinstance(value, float):
        return torch.get_default_dtype()
    if isinstance(value, sympy.Expr) and not value.is_integer:
        return torch.get_default_dtype()
    return torch.int64


def result_type(operands: Iterable[Operand]) -> torch.dtype:
    """Return the common dtype of an elementwise operation, as `torch.result_type` gives it."""
    levels: tuple[list[torch.dtype], ...] = ([], [], [])
    for operand in operands:
        if isinstance(operand, TensorBox):
            levels[0 if operand.ndim else 1].append(operand.dtype)
        else:
            levels[2].append(dtype_of_number(operand))
    result: torch.dtype | None = None
    for dtypes in levels:
        for dtype in _common(dtypes):
            if result is None or category(dtype) > category(result):
                result = dtype
    return result or torch.get_default_dtype()


def _common(dtypes: list[torch.dtype]) -> list[torch.dtype]:
    """Return the dtypes of one priority promoted to one, as a list of one or none."""
    result = dtypes[:1]
    for dtype in dtypes[1:]:
        result = [torch.promote_types(result[0], dtype)]
    return result


def computation_type(operands: Iterable[Operand], rule: Promotion) -> torch.dtype:
    """Return the dtype in which an operation is computed."""
    dtype = result_type(operands)
    if rule is Promotion.INT_TO_FLOAT and category(dtype) < 2:
        return torch.get_default_dtype()
    if rule is Promotion.BOOL_TO_LONG and dtype == torch.bool:
        return torch.int64
    return dtype
