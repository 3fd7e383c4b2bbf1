"""Loop nests whose body is a Python function: the `data` of a computed buffer.

    loops ::= Pointwise(device, dtype, ranges, inner_fn)
           |  Reduction(device, dtype, ranges, inner_fn, reduction_ranges, kind, src_dtype)
           |  Scan(device, dtype, ranges, inner_fn, reduction_ranges, kind, join)
           |  Scatter(device, dtype, ranges, inner_fn, output_index, base, mode, is_disjoint)

`Pointwise`, `Reduction`, `Scan` and `Scatter` are the names of the PyTorch 2 paper, section 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from minitorch2.loopir.expressions import Expr
from minitorch2.loopir.layout import FixedLayout, Size
from minitorch2.loopir.ops import ReductionKind, ScanKind, StoreMode, Value, compute_dtype, ops

Index = Sequence[Expr]
InnerFn = Callable[[Index], Value]
ReductionFn = Callable[[Index, Index], Value | tuple[Value, Value]]


@dataclass(frozen=True, eq=False)
class Pointwise:
    """`result[index] = inner_fn(index)` for every index in `ranges`, in any order.

    `dtype` is the dtype in memory; `inner_fn` gives a value of its compute dtype.
    """

    device: torch.device
    dtype: torch.dtype
    ranges: Size
    inner_fn: InnerFn
    reduction_ranges: Size = ()

    def run(self, name: str, layout: FixedLayout, index: Index, reduction_index: Index) -> None:
        """Execute the body once under the current handler, storing into buffer `name`."""
        ops.store(name, layout.index(index), self.inner_fn(index))


@dataclass(frozen=True, eq=False)
class Reduction:
    """`result[index] = combine(inner_fn(index, r) for r in reduction_ranges)`, in any order.

    `inner_fn` gives a value of compute dtype `src_dtype`; for argmax and argmin it gives a pair
    (candidate, position). Any order is right because every kind is associative and commutative.
    """

    device: torch.device
    dtype: torch.dtype
    ranges: Size
    inner_fn: ReductionFn
    reduction_ranges: Size
    kind: ReductionKind
    src_dtype: torch.dtype

    def run(self, name: str, layout: FixedLayout, index: Index, reduction_index: Index) -> None:
        """Execute the body once under the current handler, reducing into buffer `name`."""
        value = self.inner_fn(index, reduction_index)
        result = ops.reduction(compute_dtype(self.dtype), self.src_dtype, self.kind, value)
        ops.store_reduction(name, layout.index(index), result)


@dataclass(frozen=True, eq=False)
class Scan:
    """`result[join(index, r)] = combine(inner_fn(index, s) for s <= r)`: a running combination.

    The one reduction loop runs in order; the kept ones in any.
    """

    device: torch.device
    dtype: torch.dtype
    ranges: Size
    inner_fn: Callable[[Index, Index], Value]
    reduction_ranges: Size
    kind: ScanKind
    join: Callable[[Index, Index], Index]

    def run(self, name: str, layout: FixedLayout, index: Index, reduction_index: Index) -> None:
        """Execute the body once under the current handler, storing into buffer `name`."""
        value = self.inner_fn(index, reduction_index)
        running = ops.scan(compute_dtype(self.dtype), self.kind, value)
        ops.store(name, layout.index(self.join(index, reduction_index)), running)


@dataclass(frozen=True, eq=False)
class Scatter:
    """`result = base`, then `result[output_index(index)] = inner_fn(index)` (or `+=`).

    The result takes over the memory of the buffer `base`, which nothing else reads. Without a base
    it is new memory, in which elements that are not written are undefined. In `ranges`, the loops
    that move the address by themselves write elements of their own and run in any order. The other
    loops may write an element again, so they run in order. With `is_disjoint` no element is written
    twice, nor one that `base` has written, as for parts of a concatenation.
    """

    device: torch.device
    dtype: torch.dtype
    ranges: Size
    inner_fn: InnerFn
    output_index: Callable[[Index], Index]
    base: str | None
    mode: StoreMode = "set"
    is_disjoint: bool = False
    reduction_ranges: Size = ()

    def run(self, name: str, layout: FixedLayout, index: Index, reduction_index: Index) -> None:
        """Execute the body once under the current handler, storing into buffer `name`."""
        address = layout.index(self.output_index(index))
        ops.store(name, address, self.inner_fn(index), self.mode)


Loops = Pointwise | Reduction | Scan | Scatter
