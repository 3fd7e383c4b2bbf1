"""Views of unbacked sizes or with unbacked bounds: ``kept[:100]``, ``x[:n]``, ``kept.squeeze()``.

PyTorch's meta kernel of a slice asks on which side of the end a bound lies. No answer is needed:
the size of ``kept[:100]`` is ``min(u0, 100)``. The meta kernel of ``squeeze`` keeps an unbacked
size and assumes that it is not 1, so a run-time check is added.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from minitorch2.graph.symbols.conditions import compare
from minitorch2.graph.symbols.expression import expr_of
from minitorch2.graph.symbols.unbacked import unbacked_in
from minitorch2.native.torch_internals.operators import OpOverload


def slice_of_unbacked(
    x: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Tensor | None:
    """Return ``aten.slice`` of an unbacked size or with an unbacked bound, else None.

    None also stands for a bound that may count from the front or from the end.
    """
    size: Any = x.shape[dim]
    bounds = [bound for bound in (start, end) if bound is not None]
    if not unbacked_in((size, *bounds)) or type(step) is not int:
        return None
    if any(_is_from_front(bound) is None for bound in bounds):
        return None
    first = _inside(0 if start is None else start, size)
    last = size if end is None or expr_of(end) == sys.maxsize else _inside(end, size)
    length: Any = torch.sym_max(last - first, 0)  # type: ignore[no-untyped-call]
    sizes, strides = list(x.shape), list(x.stride())
    sizes[dim] = length if step == 1 else (length + step - 1) // step
    offset = x.storage_offset() + first * strides[dim]
    strides[dim] = strides[dim] * step
    return x.as_strided(sizes, strides, offset)


def squeeze_of_unbacked(x: Tensor, dims: int | Sequence[int] | None = None) -> None:
    """Check before ``aten.squeeze`` that an unbacked size is not 1, so that it does not vanish."""
    chosen = range(x.dim()) if dims is None else [dims] if isinstance(dims, int) else dims
    for dim in chosen:
        if x.dim() and unbacked_in((x.shape[dim],)):
            torch._check(x.shape[dim] != 1)  # type: ignore[no-untyped-call]


UNBACKED_VIEWS: Final[dict[OpOverload, Callable[..., Tensor | None]]] = {
    torch.ops.aten.slice.Tensor: slice_of_unbacked,
    torch.ops.aten.squeeze.default: squeeze_of_unbacked,
    torch.ops.aten.squeeze.dim: squeeze_of_unbacked,
    torch.ops.aten.squeeze.dims: squeeze_of_unbacked,
}
"""What runs before PyTorch's meta kernels, and instead of them unless it gives None."""


def _is_from_front(bound: Any) -> bool | None:
    """Return whether a bound counts from the front, not from the end; None if that is unknown."""
    if isinstance(bound, int):
        return bound >= 0
    decided: bool | None = bound.node.shape_env.decide(compare(">=", expr_of(bound), 0))
    return decided


def _inside(bound: Any, size: Any) -> Any:
    """Return a bound of a slice as a position between 0 and the size."""
    if _is_from_front(bound):
        return torch.sym_min(bound, size)  # type: ignore[no-untyped-call]
    return torch.sym_max(size + bound, 0)  # type: ignore[no-untyped-call]
