"""``numpy.quantile`` and ``numpy.percentile`` at places that are known while capturing."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from minitorch2.bytecode.numpy_capture.bodies.dtypes import has_axis, refuse, tensor_of

Places = tuple[Any, Any, Any]
"""Indices below and above each quantile, and how far it lies between them; None: on the first."""


def quantile_places(count: int, q: Any, is_percent: bool) -> Places:
    """Return the places of quantiles among `count` sorted values, as NumPy computes them.

    Raises:
        ValueError: NumPy's, for quantiles outside of their range.
    """
    quantiles = np.true_divide(q, 100) if is_percent else np.asanyarray(q)
    if not np.all((quantiles >= 0) & (quantiles <= 1)):
        limits = "Percentiles must be in the range [0, 100]"
        raise ValueError(limits if is_percent else "Quantiles must be in the range [0, 1]")
    virtual = np.asanyarray((count - 1) * quantiles)
    if np.issubdtype(virtual.dtype, np.integer):
        return virtual.tolist(), virtual.tolist(), None
    is_last = virtual >= count - 1
    below = np.where(is_last, -1, np.floor(virtual)).astype(np.intp)
    above = np.where(is_last, -1, np.floor(virtual) + 1).astype(np.intp)
    return below.tolist(), above.tolist(), (virtual - below).tolist()


def _between(low: Any, high: Any, part: Any, is_weak: bool) -> Any:
    """Interpolate from the nearer end, with the roundings of NumPy."""
    step = high - low
    if not is_weak:
        part = torch.tensor(part, dtype=torch.float64).reshape(-1, *([1] * (low.ndim - 1)))
        from_high = high - step * (1 - part)
        return torch.where(part >= 0.5, from_high, low + step * part)
    if not low.is_floating_point():
        low, high, step = (value.to(torch.float64) for value in (low, high, step))
    return high - step * (1 - part) if part >= 0.5 else low + step * part


def _quantile(a: Any, q: Any, axis: Any, keepdims: Any, options: Any, is_percent: bool) -> Any:
    values = tensor_of(a)
    if any(value not in (None, False, "linear") for value in options):
        refuse("quantiles by another method, with weights, or in an array that is given")
    if values.dtype in (torch.bool, torch.float16) or values.is_complex():
        refuse("quantiles of this dtype")
    if not isinstance(q, int | float | list | tuple) or isinstance(axis, list | tuple):
        refuse("quantiles at places that are data, or along several axes")
    has_axis(values, axis)
    rank, rows = values.ndim, values.reshape(-1) if axis is None else values.movedim(axis, 0)
    if rows.shape[0] == 0:
        refuse("quantiles of nothing")
    rows = torch.sort(rows, dim=0)[0]
    is_weak = isinstance(q, int | float)
    low, high, part = quantile_places(rows.shape[0], q, is_percent)
    found = rows[low] if part is None else _between(rows[low], rows[high], part, is_weak)
    if rows.is_floating_point():
        found = torch.where(rows[-1].isnan(), rows[-1], found)
    if keepdims is not True:
        return found
    own = found.shape[: 0 if is_weak else 1]
    if axis is None:
        return found.reshape(*own, *([1] * rank))
    return found.unsqueeze(axis % rank + len(own))


def _function(is_percent: bool) -> Any:
    def quantile(
        a: Any,
        q: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: Any = False,
        method: Any = "linear",
        keepdims: Any = False,
        *,
        weights: Any = None,
        interpolation: Any = None,
    ) -> Any:
        options = (out, overwrite_input, method, weights, interpolation)
        return _quantile(a, q, axis, keepdims, options, is_percent)

    return quantile


quantile, percentile = _function(is_percent=False), _function(is_percent=True)
"""``numpy.quantile`` and ``numpy.percentile``"""
