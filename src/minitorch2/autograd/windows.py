"""``as_strided`` as a chain of ordinary views.

``as_strided`` addresses memory, not elements of its tensor: on a view, it reaches elements outside
of the view. In a functional graph values have no fixed memory. So a window is expressed relative to
the base tensor of all views of a storage, in that tensor's own order::

    base.view.as_strided(size, stride, offset)
        --> base.permute(memory order).view(-1)[first:].as_strided(size, stride)
            if base fills its memory, and first = offset - base.storage_offset() is known;
            where the window is all of that memory, row by row, it is an ordinary view
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from minitorch2.autograd.functionalize import (
    COMPUTED_VIEWS,
    ELEMENTS_CHANGE,
    Storage,
    TensorState,
    ViewStep,
)
from minitorch2.errors import UnsupportedError
from minitorch2.graph.memory_order import memory_order

aten = torch.ops.aten


def window_steps(
    state: TensorState, tensor: torch.Tensor, size: Any, stride: Any, offset: int | None = None
) -> tuple[ViewStep, ...]:
    """Return the views from the base tensor of a storage to a window on its memory.

    ``state`` is that of ``tensor``, whose storage offset counts if no ``offset`` is given. Raises
    UnsupportedError where the position in the base is not certain.
    """
    storage = state.storage
    base = storage.origin.meta["val"]
    if offset is not None and storage.input_index is not None:
        raise UnsupportedError("as_strided with a storage offset of an input")
    start, rest = divmod(int(base.storage_offset()) * base.itemsize, tensor.itemsize)
    first = int(tensor.storage_offset() if offset is None else offset) - start
    last = first + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    length = base.numel() * base.itemsize // tensor.itemsize
    if rest or not 0 <= first <= last + 1 <= length:
        raise UnsupportedError("as_strided reaches memory outside of the graph's tensors")
    flat = _flat(storage, base, tensor.dtype)
    is_whole = first == 0 and last + 1 == length
    return (*flat, *_window(first, size, stride, is_whole), *_pending(state.views))


def _flat(storage: Storage, base: torch.Tensor, dtype: torch.dtype) -> Iterator[ViewStep]:
    """Yield the base's memory as one dimension of elements of a dtype."""
    order = memory_order(base)
    if order is None:
        raise UnsupportedError("as_strided of a tensor with gaps in its memory")
    if order != list(range(base.dim())):
        yield ViewStep(aten.permute.default, (order,), {})
    if base.dim() != 1:
        yield ViewStep(aten.view.default, ([-1],), {})
    if base.dtype != dtype:
        yield ViewStep(aten.view.dtype, (dtype,), {})


def _pending(views: tuple[ViewStep, ...]) -> Iterator[ViewStep]:
    """Yield the conjugations and negations that a tensor carries: its windows carry them, too."""
    for func in COMPUTED_VIEWS:
        places = [index for index, step in enumerate(views) if step.func is func]
        if any(step.func in ELEMENTS_CHANGE for step in views[min(places, default=len(views)) :]):
            raise UnsupportedError("as_strided of elements of a conjugated view")
        if len(places) % 2:
            yield ViewStep(func, (), {})


def _window(first: int, size: Any, stride: Any, is_whole: bool) -> Iterator[ViewStep]:
    if first:
        yield ViewStep(aten.slice.Tensor, (0, first), {})
    if is_whole and tuple(stride) == torch.empty(size, device="meta").stride():
        yield ViewStep(aten.view.default, (size,), {})
    else:
        yield ViewStep(aten.as_strided.default, (size, stride), {})
