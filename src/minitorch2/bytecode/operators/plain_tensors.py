"""Tensors of a subclass as plain tensors: compiled code and guards use them without their class.

A subclass may override any operator and attribute of its tensors. None of this runs here: guards
that ask a tensor for its size are not calls of the user's program.
"""

from __future__ import annotations

import torch

from minitorch2.native.torch_internals.modes import DisableTorchFunction


def as_plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return a plain tensor on the same memory; its gradient flows to the tensor."""
    if torch.is_grad_enabled():
        return torch.Tensor.as_subclass(tensor, torch.Tensor)
    with DisableTorchFunction(), torch.enable_grad():
        return torch.Tensor.as_subclass(tensor, torch.Tensor)


def of_class(tensor: torch.Tensor, cls: type) -> torch.Tensor:
    """Return a tensor of a subclass on a result's memory; gradients flow where the result's do."""
    with DisableTorchFunction(), torch.set_grad_enabled(tensor.grad_fn is not None):
        return torch.Tensor.as_subclass(tensor, cls)


def gradient_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the gradient that the backward pass has left in the tensor; None if there is none."""
    with DisableTorchFunction():
        return tensor.grad


def is_leaf(tensor: torch.Tensor) -> bool:
    """Return whether the tensor is a leaf: no operator of autograd has made it."""
    with DisableTorchFunction():
        return tensor.is_leaf
