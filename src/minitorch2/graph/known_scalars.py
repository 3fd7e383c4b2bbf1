"""Zero-dimensional tensors whose value is known, since they are computed of numbers alone.

`torch.div(12, 4)` is a tensor, and programs use it as a size. Its fake carries the value along: the
attribute ``known`` of a fake tensor, a real tensor or None. Only operators that make fresh tensors
pass the value on. A write to such a tensor, or a view of it (which could be written to), removes
the value, so that it is never out of date.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from minitorch2.native.torch_internals.operators import OpOverload

aten = torch.ops.aten

LIFTS = frozenset({aten.lift_fresh.default, aten.lift_fresh_copy.default})
"""What `torch.tensor(5)` calls on the tensor that it has just made."""

PLAIN = (bool, int, float, str, torch.dtype, type(None))
"""Arguments that are no tensors and hold none, nor symbols."""

SEEDED = torch.Tag.nondeterministic_seeded


def known_value(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the value of a real scalar, or of a fake one that is known."""
    if type(tensor) is torch.Tensor and tensor.dim() == 0 and tensor.is_cpu:
        return tensor
    found: torch.Tensor | None = getattr(tensor, "known", None)
    return found


def learn(
    func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any, is_fresh: bool
) -> None:
    """Record the known value of an operator's result on fakes; forget its arguments' if written."""
    if func in LIFTS:
        result.known = known_value(args[0])
    elif not is_fresh:
        _forget((*args, *kwargs.values()))
    elif isinstance(result, torch.Tensor) and result.dim() == 0:
        fake: Any = result
        fake.known = _computed(func, args, kwargs, fake)


def _forget(values: Iterable[Any]) -> None:
    for value in values:
        if getattr(value, "known", None) is not None:
            value.known = None
        elif isinstance(value, list | tuple):
            _forget(value)


def _is_plain(value: Any) -> bool:
    """Return whether an argument holds neither a tensor nor a symbol."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, PLAIN)


def _computed(
    func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any], fake: Any
) -> torch.Tensor | None:
    """Return the value, if all tensor arguments are known scalars and nothing is random."""
    tensors = [value for value in args if isinstance(value, torch.Tensor)]
    values = {id(tensor): known_value(tensor) for tensor in tensors}
    others = [v for v in (*args, *kwargs.values()) if not isinstance(v, torch.Tensor)]
    if any(value is None for value in values.values()) or not fake.is_cpu:
        return None
    if not all(map(_is_plain, others)) or SEEDED in func.tags:
        return None
    real = func(*(values.get(id(arg), arg) for arg in args), **kwargs)
    return real if isinstance(real, torch.Tensor) and real.dtype == fake.dtype else None
