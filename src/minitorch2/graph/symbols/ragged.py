"""The size of a dimension of a jagged tensor: its length differs from row to row.

PyTorch makes such a size for each tensor of offsets, and compares sizes by identity: ``j0 == j0``
holds, and ``j0 == j1`` does not. One of our own stands for the size while compiling, since its
multiples may be symbolic: a stride is the size times the length of the other dimensions.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

import sympy
import torch

from minitorch2.native.torch_internals.nested import RAGGED_SIZES, NestedIntNode

_NUMBERS: Final = itertools.count(-1, -1)
"""PyTorch's own numbers are not negative."""


class RaggedSize(NestedIntNode):
    """The node in a ``torch.SymInt``: ``coeff`` times the size that belongs to one tensor."""

    shape_env = None
    has_hint = NestedIntNode.is_symbolic

    def mul(self, other: Any) -> RaggedSize:
        """Return a multiple of the size; the factor may be symbolic."""
        factor = other.constant_int() if other.is_constant() else other.expr
        return RaggedSize(self.t_id, self.coeff * factor)

    @property
    def expr(self) -> Any:
        """An expression that equals no other size."""
        return self.coeff * sympy.Dummy("j", integer=True, positive=True, dummy_index=-self.t_id)


def may_be_offsets(value: object) -> bool:
    """Return whether a value has the form of the offsets or lengths of a jagged tensor's rows."""
    integers = (torch.int64, torch.int32)
    return isinstance(value, torch.Tensor) and value.dim() == 1 and value.dtype in integers


def give_ragged_size(offsets: torch.Tensor) -> None:
    """Let a fake tensor have a ragged size, in case it becomes the offsets of a jagged tensor."""
    RAGGED_SIZES[offsets] = torch.SymInt(RaggedSize(next(_NUMBERS), 1))  # type: ignore[no-untyped-call]
