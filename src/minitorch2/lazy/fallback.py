"""The one function that every operator without a deferred form goes through.

A breakpoint in `run_fallback` shows each of them (LazyTensor paper, section 4.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch

from minitorch2 import stages
from minitorch2.graph.user_lines import user_line
from minitorch2.lazy.infer import map_tensors
from minitorch2.lazy.interpret import with_memory
from minitorch2.lazy.plan import PACK, Plan
from minitorch2.lazy.step import COUNTS, memory_of
from minitorch2.lazy.value import LazyTensor, Operator, Value, follow
from minitorch2.native.torch_internals.gradients import InferenceSwitch


def run_fallback(
    func: Operator, plan: Plan, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Run an operator in eager mode, on data: what it reads is computed first.

    Its results are lazy tensors that have data, if an argument was lazy, and else ordinary ones.
    """
    COUNTS.fallbacks[str(func), str(user_line() or "")] += 1
    stages.count("lazy_fallbacks")
    tensors: list[tuple[torch.Tensor, torch.Tensor]] = []
    forms: list[tuple[Any, ...]] = []

    def observed(tensor: torch.Tensor) -> torch.Tensor:
        looked_at = LazyTensor.observe(tensor, str(func), exposes=bool(plan.written))
        data: torch.Tensor = with_memory(looked_at)
        if plan.written and type(tensor) is LazyTensor:
            data = data.detach()  # views keep the data as they are, if the operator gives others
        tensors.append((tensor, data))
        forms.append(_form(data))
        return data

    real = map_tensors(args, observed)
    named = {name: map_tensors(argument, observed) for name, argument in kwargs.items()}
    result = func(*real, **named)
    if plan.counts_writes:
        torch.autograd.graph.increment_version(plan.written_by(args, kwargs))
    for (tensor, data), before in zip(tensors, forms, strict=True):
        if type(tensor) is LazyTensor and _form(data) != before:
            _follow(tensor, data)
    originals = {id(data): tensor for tensor, data in tensors}
    is_lazy = any(type(tensor) is LazyTensor for tensor, _ in tensors)

    def wrapped(tensor: torch.Tensor) -> torch.Tensor:
        known = originals.get(id(tensor))
        if known is not None:
            return known
        is_read_directly = func is PACK and tensor is result[1]
        return as_lazy(tensor) if is_lazy and not is_read_directly else tensor

    return map_tensors(result, wrapped)


def as_lazy(data: torch.Tensor) -> torch.Tensor:
    """Return a lazy tensor that has this data; sparse ones and the like stay as they are."""
    is_dense = data.layout is torch.strided and not (data.is_quantized or data.is_nested)
    if type(data) is not torch.Tensor or not is_dense:
        return data
    plain = data.resolve_conj().resolve_neg()
    # A view of an ordinary tensor is one in inference mode, too: it counts versions.
    is_ordinary = torch.is_inference_mode_enabled() and not plain.is_inference()
    with InferenceSwitch(False) if is_ordinary else nullcontext():
        return LazyTensor.of(plain)


def _follow(tensor: LazyTensor, data: torch.Tensor) -> None:
    """Give a lazy tensor the form and the memory of its data, which an operator has changed."""
    tensor.value = Value(data)
    follow(tensor, LazyTensor.of(data))


def _form(data: torch.Tensor) -> tuple[Any, ...]:
    """Return the form of real data and its memory; an operator such as `set_` changes them."""
    if data.layout is not torch.strided or data.is_nested:
        return ()
    return data.dtype, data.size(), data.stride(), data.storage_offset(), memory_of(data)
