"""In which order a tensor's dimensions lie in memory."""

from __future__ import annotations

import torch

from minitorch2.graph.fake_tensor import env_of
from minitorch2.graph.symbols import expr_of
from minitorch2.graph.symbols.unbacked import is_dense


def memory_order(tensor: torch.Tensor) -> list[int] | None:
    """Return the dimensions from longest to shortest step; None if memory has gaps or overlaps."""
    order = list(range(tensor.dim()))
    if is_dense(tensor):
        return order
    steps, env = [expr_of(step) for step in tensor.stride()], env_of(tensor.stride())
    if env is not None and not all(map(env.has_hint, steps)):
        return None
    order.sort(key=lambda d: -(steps[d] if env is None else env.hint(steps[d])))
    sizes, expected = [expr_of(size) for size in tensor.shape], 1
    for dimension in reversed(order):
        if sizes[dimension] != 1 and steps[dimension] != expected:
            return None
        expected = expected * sizes[dimension]
    return order
