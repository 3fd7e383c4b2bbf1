"""Records of profiled runs: the merged type of all tensors that passed a `prim::profile` node."""

from __future__ import annotations

from typing import Any

import torch

from minitorch2.script.ir.types import TensorType


class Profile:
    """The record of one profile node.

    Attributes:
        type: the most exact type of all tensors seen; None before the first.
        runs: how many tensors were seen.
    """

    def __init__(self) -> None:
        self.type: TensorType | None = None
        self.runs = 0

    def merge(self, value: Any) -> None:
        """See a value; one that is not a tensor, such as None of an optional one, is left out."""
        if not isinstance(value, torch.Tensor):
            return
        self.runs += 1
        seen = TensorType.of(value)
        self.type = seen if self.type is None else self.type.join(seen)
