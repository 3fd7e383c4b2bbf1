"""Scans with a function of the program's own, which PyTorch runs by compiling them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from minitorch2.native.torch_internals.pytree import tree_flatten, tree_leaves, tree_unflatten

Parts = list[Any]
"""Tensors of one size along the scanned dimension: the leaves of what is combined."""


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """``torch._higher_order_ops.associative_scan``: results of `combine_fn` up to each place"""
    leaves, structure = tree_flatten(xs)
    dim = dim % leaves[0].ndim

    def combine(left: Parts, right: Parts) -> Parts:
        pair = [tree_unflatten(parts, structure) for parts in (left, right)]
        return tree_leaves(combine_fn(pair[0], pair[1]))

    parts = [torch.flip(x, [dim]) for x in leaves] if reverse else leaves
    results = _scanned(combine, parts, dim)
    if reverse:
        results = [torch.flip(x, [dim]) for x in results]
    return tree_unflatten(results, structure)


def _scanned(combine: Callable[[Parts, Parts], Parts], parts: Parts, dim: int) -> Parts:
    """Combine neighbours, scan these half as many, and fill in the places between.

    Blelloch: Prefix sums and their applications (1990).
    """
    count = parts[0].shape[dim]
    if count < 2:
        return parts
    pairs = combine(_every_other(parts, dim, 0, count - 1), _every_other(parts, dim, 1, count))
    odd = _scanned(combine, pairs, dim)
    first = [x.narrow(dim, 0, 1) for x in parts]
    if count == 2:
        return [torch.cat(both, dim) for both in zip(first, odd, strict=True)]
    before = [x.narrow(dim, 0, (count - 1) // 2) for x in odd]
    even = combine(before, _every_other(parts, dim, 2, count))
    return [_merged(a, b, c, dim) for a, b, c in zip(first, even, odd, strict=True)]


def _every_other(parts: Parts, dim: int, start: int, stop: int) -> Parts:
    index = [slice(None)] * dim + [slice(start, stop, 2)]
    return [x[tuple(index)] for x in parts]


def _merged(first: Any, even: Any, odd: Any, dim: int) -> Any:
    """Return even and odd places in turn."""
    even, count = torch.cat([first, even], dim), odd.shape[dim]
    pairs = torch.stack([even.narrow(dim, 0, count), odd], dim + 1).flatten(dim, dim + 1)
    return torch.cat([pairs, even.narrow(dim, count, even.shape[dim] - count)], dim)
