"""The marks of a view whose elements are still to be conjugated or negated.

    z.conj()       shows the memory of z, with a mark; readers conjugate what they read
    z.conj().imag  shows the imaginary parts of z, with a mark to negate them

PyTorch's dispatcher looks at the marks before Python sees a call. So a lazy tensor carries them as
an ordinary one does, and whoever cannot read marked tensors gets a clone, which is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import torch

from minitorch2.lazy.value import LazyTensor, Operator
from minitorch2.native.torch_internals.dispatch import mark_conjugated, mark_negated

_CONJUGATE: Final = torch.ops.aten._conj.default
_NEGATE: Final = torch.ops.aten._neg_view.default


def is_marked(tensor: torch.Tensor) -> bool:
    """Return whether the elements of a tensor are still to be conjugated or negated."""
    return tensor.is_conj() or tensor.is_neg()


def gives_marks(base: torch.Tensor, func: Operator) -> bool:
    """Return whether a view operator gives marks, or a view of a base that has some."""
    return func in (_CONJUGATE, _NEGATE) or is_marked(base)


def mark_views(views: Iterable[LazyTensor | None], base: torch.Tensor, func: Operator) -> None:
    """Give views the marks of their base; `_conj` and `_neg_view` turn theirs."""
    if not gives_marks(base, func):
        return
    for view in views:
        if view is not None:
            mark_conjugated(view, base.is_conj() is not (func is _CONJUGATE))
            mark_negated(view, base.is_neg() is not (func is _NEGATE))
