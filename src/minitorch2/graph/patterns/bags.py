"""Rules of ``open_embedding_bags``: bags of equal size are rows that are added up.

``embedding_bag`` is a library's function, which no loop can take in, and whose gradient goes
through each bag again. Rows that are looked up and added are loops, and so is their gradient. Equal
up to rounding.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import functional as F

from minitorch2.graph.patterns.rule import rule
from minitorch2.graph.symbols import free_symbols
from minitorch2.graph.symbols.expression import is_unbacked


def _is_matrix(x: Tensor, **others: Any) -> bool:
    """Return whether each row of ``x`` is a bag, and none is empty."""
    return x.ndim == 2 and not any(map(is_unbacked, free_symbols(x.size(1)))) and x.size(1) > 0


@rule("open_embedding_bags", when=_is_matrix)
def mean_of_rows(x: Tensor, w: Tensor, norm: Any) -> tuple[Any, Any]:
    """``embedding_bag(x, w, mode="mean") --> embedding(x, w).mean(1) if x is a matrix``"""
    bag = F.embedding_bag(x, w, None, None, norm, False, "mean", False, None, False, None)
    return bag, F.embedding(x, w).mean(1)


@rule("open_embedding_bags", when=_is_matrix)
def sum_of_rows(x: Tensor, w: Tensor, norm: Any) -> tuple[Any, Any]:
    """``embedding_bag(x, w, mode="sum") --> embedding(x, w).sum(1) if x is a matrix``"""
    bag = F.embedding_bag(x, w, None, None, norm, False, "sum", False, None, False, None)
    return bag, F.embedding(x, w).sum(1)


@rule("open_embedding_bags", when=_is_matrix)
def sum_of_weighted_rows(x: Tensor, w: Tensor, norm: Any, p: Tensor) -> tuple[Any, Any]:
    """``embedding_bag(x, w, per_sample_weights=p) --> (embedding(x, w) * p).sum(1) if matrices``"""
    bag = F.embedding_bag(x, w, None, None, norm, False, "sum", False, p, False, None)
    return bag, (F.embedding(x, w) * p.unsqueeze(-1)).sum(1)
