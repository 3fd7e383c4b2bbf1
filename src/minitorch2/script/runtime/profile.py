"""What profiled runs saw of a tensor: the merged type of all that passed a `prim::profile` node."""

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
        """See a value; what is no tensor, such as an optional one that is None, is left out."""
        if not isinstance(value, torch.Tensor):
            return
        self.runs += 1
        seen = TensorType.of(value)
        self.type = seen if self.type is None else self.type.join(seen)
