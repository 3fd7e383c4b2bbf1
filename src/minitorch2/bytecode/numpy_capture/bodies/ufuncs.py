"""Universal functions that are more than one of PyTorch's operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch

from minitorch2.bytecode.numpy_capture.bodies.dtypes import refuse, stored
from minitorch2.bytecode.numpy_capture.bodies.linalg import slogdet
from minitorch2.bytecode.numpy_capture.bodies.products import matmul, vecdot
from minitorch2.native.numpy_internals import SLOGDET


def heaviside(x: Any, y: Any) -> Any:
    """``numpy.heaviside``"""
    return torch.where(torch.isnan(x), x, torch.heaviside(x, y))


def remainder(a: Any, b: Any) -> Any:
    """Compute ``numpy.remainder`` of floats: a remainder of zero has the divisor's sign."""
    rest = torch.remainder(a, b)
    return torch.where(rest == 0, torch.copysign(torch.zeros_like(rest), b), rest)


def _whole_division(divide: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a division of integers: NumPy gives 0 for a division by zero, and PyTorch raises."""

    def divided(a: Any, b: Any) -> Any:
        return torch.where(b == 0, 0, divide(a, torch.where(b == 0, 1, b)))

    return divided


def sign(x: Any) -> Any:
    """``numpy.sign``"""
    if x.is_complex() or x.dtype is torch.bool:
        refuse("the sign of these numbers")
    return torch.where(torch.isnan(x), x, torch.sign(x)) if x.is_floating_point() else torch.sign(x)


def round(self: Any, decimals: int = 0, out: Any = None) -> Any:
    """``ndarray.round``"""
    if self.is_complex() or self.dtype is torch.bool or self.dtype is torch.float16:
        refuse("rounding of these numbers")
    if not self.is_floating_point():
        if decimals < 0:
            refuse("rounding of integers to tens")
        return stored(self.clone(), out)
    if decimals == 0:
        return stored(torch.round(self), out)
    factor = 10.0 ** abs(decimals)
    if decimals > 0:
        return stored(torch.round(self * factor) / factor, out)
    return stored(torch.round(self / factor) * factor, out)


UFUNCS: Final[dict[Any, Callable[..., Any]]] = {
    np.matmul: matmul,
    np.vecdot: vecdot,
    np.sign: sign,
    SLOGDET: slogdet,
}
"""Universal functions whose dtypes or results are not those of one loop."""


OF_FLOATS: Final[dict[Any, Callable[..., Any]]] = {np.heaviside: heaviside, np.remainder: remainder}


OF_INTEGERS: Final[dict[Any, Callable[..., Any]]] = {
    np.floor_divide: _whole_division(torch.floor_divide),
    np.remainder: _whole_division(torch.remainder),
    np.fmod: _whole_division(torch.fmod),
}
"""Universal functions that take more than one operator for numbers of this kind."""
