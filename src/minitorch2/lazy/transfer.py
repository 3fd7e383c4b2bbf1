"""Models and tensors become lazy, as ``model.to("xla")`` makes them (LazyTensor paper, section 3).

Results that are computed from a lazy tensor are lazy. No mode is needed; numbers and batches stay
ordinary tensors.
"""

from __future__ import annotations

from typing import Any, TypeVar

import torch

from minitorch2.lazy.barrier import observe
from minitorch2.lazy.value import LazyTensor

T = TypeVar("T", torch.Tensor, torch.nn.Module)


def to_lazy(model: T) -> T:
    """Return a tensor as a lazy one, or make a module's parameters and buffers lazy, in place.

    The data are copied, so later writes to the original memory are not seen.
    """
    return _converted(model, _lazy)  # type: ignore[no-any-return]


def to_eager(model: T) -> T:
    """Return the real tensor of a lazy one, or give a module ordinary parameters and buffers."""
    return _converted(model, _eager)  # type: ignore[no-any-return]


def _converted(model: Any, convert: Any) -> Any:
    if isinstance(model, torch.Tensor):
        return convert(model)
    known: dict[int, torch.Tensor] = {}
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    tensors[name] = known.setdefault(id(tensor), convert(tensor))
    return model


def _lazy(tensor: torch.Tensor) -> torch.Tensor:
    if type(tensor) is LazyTensor:
        return tensor
    data = tensor.detach().clone(memory_format=torch.preserve_format)
    return _like(LazyTensor.of(data), tensor, _lazy)


def _eager(tensor: torch.Tensor) -> torch.Tensor:
    if type(tensor) is not LazyTensor:
        return tensor
    return _like(observe(tensor, "to_eager").detach(), tensor, _eager)


def _like(converted: Any, tensor: torch.Tensor, convert: Any) -> torch.Tensor:
    """Give a converted tensor the gradient settings of the original."""
    if isinstance(tensor, torch.nn.Parameter):
        converted = torch.nn.Parameter(converted, tensor.requires_grad)
    elif tensor.requires_grad:
        converted.requires_grad_()
    if (tensor.is_leaf or tensor.retains_grad) and tensor.grad is not None:
        converted.grad = convert(tensor.grad)
    return converted  # type: ignore[no-any-return]
