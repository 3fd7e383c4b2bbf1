"""Iteration spaces: the loops around a body, and how its memory accesses move with each of them.

    domain ::= sizes of the kept loops, then sizes of the reduction loops; no loop has size 1
    access ::= (name, strides, offset): loop i moves the address by strides[i], None if not linearly

The scheduler compares accesses millions of times, so they are tuples of integers here wherever
sizes are, and SymPy is asked once per access (`linear_access`). Laws, for any body:

    split:    for i in a*b     -->  for i0 in a: for i1 in b     with i = i0*b + i1
    permute:  loops of a pointwise body, or of one side of a reduction, may run in any order
    merge:    for i0 in a: for i1 in b  -->  for i in a*b  with i0 = 0, i1 = i
              if stride(i0) == b * stride(i1) for every access
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import sympy

from minitorch2.graph.symbols.polynomials import multiply_out
from minitorch2.loopir.expressions import Expr, divide_exactly, equal, product, to_expr
from minitorch2.loopir.handlers.effects import INDIRECT_PREFIX

Sizes: TypeAlias = tuple[Expr, ...]
Strides: TypeAlias = "tuple[Expr | None, ...]"


@dataclass(frozen=True)
class Access:
    """One address that a body touches, as a function of its loops. The `name` is empty for a value
    made of the indices themselves (`ops.index_expr`).
    """

    name: str
    strides: Strides
    offset: Expr

    @property
    def is_linear(self) -> bool:
        """True if the strides and the offset determine the address."""
        return None not in self.strides

    @property
    def is_indirect(self) -> bool:
        """True if the offset was loaded: it may be another one wherever the loops are."""
        symbols = () if isinstance(self.offset, int) else self.offset.free_symbols
        return any(str(symbol).startswith(INDIRECT_PREFIX) for symbol in symbols)

    def elements(self, sizes: Sizes) -> Expr:
        """Return the number of different elements touched, at most."""
        return product(n for n, stride in zip(sizes, self.strides) if stride != 0)


@lru_cache(65536)
def linear_access(name: str, index: Expr, symbols: tuple[sympy.Symbol, ...]) -> Access:
    """Split an address into strides and an offset."""
    if isinstance(index, int):
        return Access(name, (0,) * len(symbols), index)
    strides: dict[sympy.Symbol, Expr | None] = dict.fromkeys(symbols, 0)
    offset: Expr = 0
    for term in sympy.Add.make_args(multiply_out(index)):
        used = [symbol for symbol in symbols if symbol in term.free_symbols]
        factor = term / used[0] if len(used) == 1 else None
        if not used:
            offset = offset + term
        elif factor is not None and used[0] not in factor.free_symbols:
            known = strides[used[0]]
            strides[used[0]] = None if known is None else to_expr(known + factor)
        else:
            strides |= dict.fromkeys(used)
    return Access(name, tuple(strides.values()), to_expr(offset))


def refine(a: Sizes, b: Sizes) -> Sizes | None:
    """Return the coarsest common splits: (6, 4), (2, 3, 4) -> (2, 3, 4); or None."""
    if a == b:
        return a
    result: list[Expr] = []
    left, right = list(a), list(b)
    while left and right:
        m, n = left.pop(), right.pop()
        if equal(m, n):
            result.append(m)
        elif (quotient := divide_exactly(n, m)) is not None:
            result.append(m)
            right.append(quotient)
        elif (quotient := divide_exactly(m, n)) is not None:
            result.append(n)
            left.append(quotient)
        else:
            return None
    return None if left or right else tuple(reversed(result))


def split_counts(coarse: Sizes, fine: Sizes) -> tuple[int, ...]:
    """Return for each loop of `coarse` how many consecutive loops of `fine` it becomes."""
    counts, position = [], 0
    for size in coarse:
        start, covered = position, fine[position]
        while not equal(covered, size):
            position += 1
            covered = product((covered, fine[position]))
        position += 1
        counts.append(position - start)
    return tuple(counts)


def split_strides(strides: Strides, counts: Sequence[int], fine: Sizes) -> Strides:
    """Return the strides over split loops: the innermost part keeps the stride."""
    result: list[Expr | None] = []
    position = 0
    for stride, count in zip(strides, counts, strict=True):
        parts = fine[position : position + count]
        for i in range(count):
            result.append(None if stride is None else product((stride, *parts[i + 1 :])))
        position += count
    return tuple(result)


def can_merge(outer: int, inner: int, sizes: Sizes, accesses: Iterable[Access]) -> bool:
    """Return whether loop `outer` directly around loop `inner` can be one loop for all accesses."""
    for access in accesses:
        far, near = access.strides[outer], access.strides[inner]
        if far is None or near is None or not equal(far, product((near, sizes[inner]))):
            return False
    return True


def vote_order(dims: Sequence[int], sizes: Sizes, accesses: Sequence[Access]) -> list[int]:
    """Return the order of the loops `dims`, outermost first, that suits memory best by vote.

    Each access votes for its loops by decreasing stride; an access of more elements has more votes,
    and writes are listed twice by the caller if they should count double. A loop that an access
    does not move with has no opinion there (PyTorch 2 paper, section 6.4).
    """
    order = list(dims)
    # Insertion sort by pairwise majority: stable, and few loops.
    for end in range(1, len(order)):
        at = end
        while at and _prefers_swap(order[at - 1], order[at], sizes, accesses):
            order[at - 1], order[at] = order[at], order[at - 1]
            at -= 1
    return order


def _prefers_swap(outer: int, inner: int, sizes: Sizes, accesses: Sequence[Access]) -> bool:
    """Return whether most accesses walk memory better with `inner` around `outer`."""
    votes = 0
    for access in accesses:
        far, near = access.strides[outer], access.strides[inner]
        if isinstance(far, int) and isinstance(near, int) and far and near:
            votes += _weight(access, sizes) * (1 if abs(far) < abs(near) else -1)
        elif access.is_linear and bool(far) and near == 0 and far == 1:
            votes += _weight(access, sizes)  # a dense access that the inner loop does not walk
        elif access.is_indirect and far == 0 and near == 1:
            votes -= _weight(access, sizes)  # pieces of rows that lie anywhere
    return votes > 0


def _weight(access: Access, sizes: Sizes) -> int:
    elements = product(sizes) if access.is_indirect else access.elements(sizes)
    return elements if isinstance(elements, int) else 1 << 20
