"""Operators that draw random numbers: they draw when they are called, as in eager mode.

So a program gets eager mode's own numbers, whatever is seeded or drawn between two operators, and a
step is a function of its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from minitorch2.lazy.fallback import as_lazy, run_fallback
from minitorch2.lazy.plan import Plan, plan_of
from minitorch2.lazy.step import COUNTS
from minitorch2.lazy.value import LazyTensor, Operator

aten = torch.ops.aten


def draw(
    func: Operator,
    plan: Plan,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    record: Callable[..., Any],
) -> Any:
    """Run an operator that draws; record it if it does not draw with these arguments."""
    if not _draws(func, args, kwargs):
        return record(func, plan, args, kwargs)
    tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
    if not tensors:
        COUNTS.now += 1
        return func(*args, **kwargs)
    if len(tensors) == 1 and args[0] is tensors[0]:
        if plan.returned == (0,):
            return _fill(func, args, kwargs, record)
        if func._schema.name.endswith("_like"):
            COUNTS.now += 1
            return as_lazy(func(_empty_like(args[0]), *args[1:], **kwargs))
    return run_fallback(func, plan, args, kwargs)


def _draws(func: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Return whether a call draws: attention without dropout does not."""
    names = [argument.name for argument in func._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    return "dropout_p" not in names or bool(given.get("dropout_p"))


def _fill(
    func: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any], record: Callable[..., Any]
) -> Any:
    """Draw into memory of the tensor's form; record that the tensor becomes a copy of it."""
    COUNTS.now += 1
    drawn = func(_empty_like(args[0]), *args[1:], **kwargs)
    copy = aten.copy_.default
    return record(copy, plan_of(copy), (args[0], LazyTensor.of(drawn)), {})


def _empty_like(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(
        tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )
