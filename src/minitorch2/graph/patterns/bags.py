"""Rules of ``open_embedding_bags``: bags of equal size are rows that are added up.

``embedding_bag`` is a library's function, which no loop can take in, and whose gradient goes
through each bag again. Rows that are looked up and added are loops, and so is their gradient. Equal
up to rounding.

The library fetches rows ahead, so it reads wide rows and large tables faster than loops do. The
rules are for narrow rows of moderate tables; the limits were measured on a CPU.
"""

from __future__ import annotations

from typing import Any, Final

from torch import Tensor
from torch.nn import functional as F

from minitorch2.graph.patterns.rule import rule
from minitorch2.graph.symbols import free_symbols
from minitorch2.graph.symbols.expression import is_unbacked

WIDEST: Final = 32
"""The most elements of a row."""
LARGEST: Final = 2**24
"""The most elements of a table."""


def _fits(x: Tensor, w: Tensor, **others: Any) -> bool:
    """Return whether each row of ``x`` is a bag, none is empty, and loops are faster."""
    sizes = (*x.shape, *w.shape)
    if x.ndim != 2 or any(is_unbacked(symbol) for symbol in free_symbols(sizes)):
        return False
    return bool(x.size(1) > 0 and w.size(1) <= WIDEST and w.numel() <= LARGEST)


@rule("open_embedding_bags", when=_fits)
def mean_of_rows(x: Tensor, w: Tensor, norm: Any) -> tuple[Any, Any]:
    """``embedding_bag(x, w, mode="mean") --> embedding(x, w).mean(1) if x is a matrix``"""
    bag = F.embedding_bag(x, w, None, None, norm, False, "mean", False, None, False, None)
    return bag, F.embedding(x, w).mean(1)


@rule("open_embedding_bags", when=_fits)
def sum_of_rows(x: Tensor, w: Tensor, norm: Any) -> tuple[Any, Any]:
    """``embedding_bag(x, w, mode="sum") --> embedding(x, w).sum(1) if x is a matrix``"""
    bag = F.embedding_bag(x, w, None, None, norm, False, "sum", False, None, False, None)
    return bag, F.embedding(x, w).sum(1)


@rule("open_embedding_bags", when=_fits)
def sum_of_weighted_rows(x: Tensor, w: Tensor, norm: Any, p: Tensor) -> tuple[Any, Any]:
    """``embedding_bag(x, w, per_sample_weights=p) --> (embedding(x, w) * p).sum(1) if matrices``"""
    bag = F.embedding_bag(x, w, None, None, norm, False, "sum", False, p, False, None)
    return bag, (F.embedding(x, w) * p.unsqueeze(-1)).sum(1)
