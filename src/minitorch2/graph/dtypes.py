"""Inclusion between dtypes: the dtypes that hold all values of another one."""

from __future__ import annotations

import torch


def holds_values_of(wide: torch.dtype, narrow: torch.dtype) -> bool:
    """Return whether the dtype `wide` has every value of `narrow`, a dtype of the same kind.

    >>> holds_values_of(torch.float32, torch.bfloat16), holds_values_of(torch.int8, torch.uint8)
    (True, False)
    """
    if wide.is_floating_point != narrow.is_floating_point or wide.is_complex != narrow.is_complex:
        return False
    if wide.is_floating_point and 1 in (wide.itemsize, narrow.itemsize):
        return wide == narrow or wide.itemsize >= 4  # PyTorch does not promote floats of 8 bits
    return torch.promote_types(wide, narrow) == wide
