"""The metadata of a tensor that guards compare, read from the tensor."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class TensorMetadata:
    """The metadata that a captured graph assumes of a tensor. A size or stride of None may vary."""

    cls: type
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool
    dispatch_keys: int
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...] | None

    @staticmethod
    def of(tensor: torch.Tensor, dynamic_dims: frozenset[int] = frozenset()) -> TensorMetadata:
        """Return the metadata of a tensor; with dynamic dimensions the strides are left free."""
        strided = tensor.layout is torch.strided
        return TensorMetadata(
            type(tensor),
            tensor.dtype,
            tensor.device,
            tensor.requires_grad,
            torch._C._dispatch_keys(tensor).raw_repr(),
            tuple(None if d in dynamic_dims else n for d, n in enumerate(tensor.shape)),
            tuple(tensor.stride()) if strided and not dynamic_dims else None,
        )
