"""Operators that no step has had at this place: they run when they are called, and are recorded.

A program that runs once so costs little more than in eager mode, and has eager mode's errors. When
it comes by again, its operators are deferred (`record.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from minitorch2.lazy.infer import map_tensors
from minitorch2.lazy.interpret import new_results, with_memory
from minitorch2.lazy.plan import Plan
from minitorch2.lazy.step import Step
from minitorch2.lazy.value import LazyTensor, Meta, Metas, Operator


def run_event(
    step: Step, func: Operator, plan: Plan, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, list[Any]]:
    """Run the call that was recorded last; return its results, and those that are new tensors.

    Raises:
        Exception: what the operator raises; the step is as before the call.
    """
    real = map_tensors(args, _shown)
    named = {name: map_tensors(argument, _shown) for name, argument in kwargs.items()}
    try:
        result = func(*real, **named)
    except BaseException:
        step.go_back()
        raise
    return result, [with_memory(new) for new in new_results(plan, result)]


def _shown(tensor: Any) -> Any:
    return tensor.value.shown() if type(tensor) is LazyTensor else tensor


def note_results(
    step: Step, new: Sequence[torch.Tensor | None], base: torch.Tensor | None
) -> Metas:
    """Return the forms of real results; remember them at the place of the last event.

    Args:
        step: the step.
        new: the results.
        base: the real tensor whose memory they show, if they are views.
    """
    begin = 0 if base is None else int(base.storage_offset())
    metas = tuple(None if tensor is None else _meta_of(tensor, begin) for tensor in new)
    if step.place.results is None:
        step.place.results = metas
    return metas


def _meta_of(tensor: torch.Tensor, begin: int) -> Meta:
    offset = int(tensor.storage_offset()) - begin
    return Meta(tensor.size(), tensor.stride(), offset, tensor.dtype, tensor.device, None)
