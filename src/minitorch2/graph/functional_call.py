"""Calls that write to their arguments, in functional form.

    before: result = target(x, out)                                   out is written
    after:  result, out_after = FunctionalCall(target, ...)(x, out)

A user's operator or kernel has no form that returns a fresh result instead. So its written
arguments are copied first, and the copies are results. An argument needs no copy if nothing else
reads its memory: lowering decides that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from minitorch2.native.torch_internals.pytree import TreeSpec, tree_unflatten


@dataclass(eq=False)
class FunctionalCall:
    """Call a function that writes to its arguments, on copies of these.

    Attributes:
        target: the function.
        spec: the structure of its positional and named arguments.
        places: for each leaf of that structure, the position of its value among those that the node
            passes. A tensor that is passed twice is one value.
        written: the positions of the values that the function writes to.
        owned: the positions of those that need no copy.
    """

    target: Callable[..., Any]
    spec: TreeSpec
    places: tuple[int, ...]
    written: tuple[int, ...]
    owned: frozenset[int] = frozenset()

    @property
    def __name__(self) -> str:
        return f"functional_{getattr(self.target, '__name__', 'call')}".replace(".", "_")

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        """Return the function's results, then the written values."""
        own = list(values)
        for index in self.written:
            if index not in self.owned:
                own[index] = _copy(values[index])
        args, kwargs = tree_unflatten([own[i] for i in self.places], self.spec)
        result = self.target(*args, **kwargs)
        results = result if isinstance(result, tuple) else () if result is None else (result,)
        return (*results, *(own[index] for index in self.written))


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a tensor with the same strides, since the function may rely on them."""
    copy = torch.empty_strided(
        tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )
    return copy.copy_(tensor)
