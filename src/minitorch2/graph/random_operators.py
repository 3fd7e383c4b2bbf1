"""The one random operator that PyTorch has in place only.

The functional form of ``x.bernoulli_(p)`` would be ``aten.bernoulli.p``, which gives a contiguous
result. Numbers are drawn in the order of memory, so they would differ from eager's wherever ``x``
is not contiguous. ``minitorch2::bernoulli`` draws into memory that is laid out as ``x`` is.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

_LIBRARY: Final = torch.library.Library("minitorch2", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "bernoulli(Tensor self, float p=0.5, *, Generator? generator=None) -> Tensor",
    tags=(torch.Tag.nondeterministic_seeded,),
)


def _bernoulli(x: Tensor, p: float = 0.5, *, generator: torch.Generator | None = None) -> Tensor:
    """1 with probability ``p``, else 0; of the shape, dtype and, if dense, strides of ``x``."""
    return torch.empty_like(x).bernoulli_(p, generator=generator)


_LIBRARY.impl("bernoulli", _bernoulli, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]

bernoulli: Final = torch.ops.minitorch2.bernoulli.default
