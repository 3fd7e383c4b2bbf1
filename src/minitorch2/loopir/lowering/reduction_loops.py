"""Loops of a reduction: one nest over the kept dimensions, another over the reduced ones.

A few elements are combined by an expression without a loop. Very many elements with few results are
reduced in two stages, so that the first runs in parallel.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import TypeAlias

import torch

from minitorch2 import config
from minitorch2.loopir.boxes import TensorBox
from minitorch2.loopir.buffers import ComputedBuffer, current_table
from minitorch2.loopir.expressions import (
    Expr,
    equal,
    floor_div,
    index_symbols,
    product,
    simplify,
    to_expr,
)
from minitorch2.loopir.handlers.counter import body_cost
from minitorch2.loopir.handlers.recorder import RecordingHandler
from minitorch2.loopir.iteration import Strides, linear_access
from minitorch2.loopir.layout import Size
from minitorch2.loopir.loops import Index, InnerFn, Pointwise, Reduction, ReductionFn
from minitorch2.loopir.lowering.conversion import convert
from minitorch2.loopir.ops import ReductionKind, Value, compute_dtype, ops, use_handler
from minitorch2.loopir.views import normalize_dim

Dims: TypeAlias = int | Sequence[int] | None

COMBINE: dict[str, str] = {
    "sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "logical_or",
    "xor_sum": "bitwise_xor",
}  # fmt: skip
"""The elementwise primitive that combines two values of a reduction."""


class ReducedDims:
    """The kept and the reduced dimensions, and the index of an element from its two halves."""

    def __init__(self, x: TensorBox, dim: Dims, keepdim: bool) -> None:
        self.ndim, self.keepdim, self.device = x.ndim, keepdim, x.device
        self.reduced = reduced_dims(x.ndim, dim)
        self.kept = [d for d in range(x.ndim) if d not in self.reduced]
        self.reduction_ranges: Size = tuple(x.size[d] for d in self.reduced)
        self.ranges: Size = tuple(
            1 if d in self.reduced else x.size[d]
            for d in range(x.ndim)
            if keepdim or d in self.kept
        )

    def walk_along(self, strides: Sequence[Expr | None]) -> None:
        """Reduce in the order of memory, given the strides of the reduced dimensions there."""
        far = [stride for stride in strides if isinstance(stride, int) and stride > 0]
        if len(far) == len(strides):
            order = sorted(range(len(far)), key=lambda i: -far[i])
            self.reduced = [self.reduced[i] for i in order]
            self.reduction_ranges = tuple(self.reduction_ranges[i] for i in order)

    def join(self, index: Index, reduction_index: Index) -> Index:
        """Return the full index of an element from its kept and its reduced coordinates."""
        outer = [index[d] for d in self.kept] if self.keepdim else list(index)
        full = dict(zip(self.kept, outer, strict=True))
        full |= dict(zip(self.reduced, reduction_index, strict=True))
        return tuple(full[d] for d in range(self.ndim))

    def reduce(
        self, dtype: torch.dtype, inner_fn: ReductionFn, ranges: Size, kind: ReductionKind,
        source: torch.dtype,
    ) -> TensorBox:  # fmt: skip
        """Return one loop of ``ranges`` elements for each result, which has ``dtype``."""
        loops = Reduction(self.device, dtype, self.ranges, inner_fn, ranges, kind, source)
        return TensorBox.create(loops)


def reduced_dims(ndim: int, dim: Dims) -> list[int]:
    """Return the dimensions to reduce, sorted; None or an empty list means all."""
    if isinstance(dim, int):
        return [normalize_dim(dim, ndim)] if ndim else []
    return sorted({normalize_dim(d, ndim) for d in dim}) if dim and ndim else list(range(ndim))


def make_reduction(
    x: TensorBox, kind: ReductionKind, dim: Dims, keepdim: bool, dtype: torch.dtype
) -> TensorBox:
    """Reduce dimensions of `x`, converted to `dtype` first; the result has dtype `dtype`.

    A few elements are combined by an expression instead of a loop, which fuses with its readers;
    very many, with few results, in two stages that run in parallel.
    """
    dims = ReducedDims(x, dim, keepdim)
    load = cast(x, dtype).make_loader()
    count = product(dims.reduction_ranges)
    few = max(config.current().unroll_reductions_threshold, 2)
    if isinstance(count, int) and 0 < count < few:
        return _unrolled(dtype, dims, load, kind)
    if _is_made_of_reductions(x):
        x.storage.realize("the kernel that computes what it is made of can compute it")
        load = cast(x, dtype).make_loader()

    def inner_fn(index: Index, reduction_index: Index) -> Value:
        return load(dims.join(index, reduction_index))

    pieces = pieces_of(dims, _walk_along_memory(dims, load), x.device)
    if pieces:
        return _in_two_stages(dtype, dims, inner_fn, kind, pieces)
    return dims.reduce(dtype, inner_fn, dims.reduction_ranges, kind, compute_dtype(dtype))


def _is_made_of_reductions(x: TensorBox) -> bool:
    """Return whether each element of a value on a GPU is computed of results of reductions.

    The loss of a row is an example. It is better stored and read than its parts, which may need
    memory for nothing else.
    """
    loops = x.storage.data
    if x.device.type != "cuda" or not isinstance(loops, Pointwise):
        return False
    read, count = body_cost(loops).buffers, product(loops.ranges)
    return any(
        buffer.name in read and isinstance(buffer.loops, Reduction)
        and equal(product(buffer.size), count)
        for buffer in current_table().buffers if isinstance(buffer, ComputedBuffer)
    )  # fmt: skip


def dims_in_memory(x: TensorBox, dim: Dims, keepdim: bool) -> tuple[ReducedDims, list[Strides]]:
    """Return the reduced dimensions in memory order, and the strides of each read along them."""
    dims = ReducedDims(x, dim, keepdim)
    return dims, _walk_along_memory(dims, x.make_loader())


def _walk_along_memory(dims: ReducedDims, load: InnerFn) -> list[Strides]:
    reads = reads_of(dims, load)
    if reads:
        dims.walk_along(reads[0][len(dims.ranges) :])
    return reads


def _unrolled(
    dtype: torch.dtype, dims: ReducedDims, load: InnerFn, kind: ReductionKind
) -> TensorBox:
    positions = [*itertools.product(*(range(int(n)) for n in dims.reduction_ranges))]

    def inner_fn(index: Index) -> Value:
        values = [load(dims.join(index, position)) for position in positions]
        result: Value = values[0]
        for value in values[1:]:
            result = getattr(ops, COMBINE[kind])(result, value)
        return result

    return TensorBox.create(Pointwise(dims.device, dtype, dims.ranges, inner_fn))


SPLIT_BELOW_OUTPUTS = {"cpu": 32, "cuda": 256}
SPLIT_FROM_ELEMENTS = 1 << 16
MOST_PIECES = {"cpu": 128, "cuda": 4096}
MOST_PARTIAL_RESULTS = 1 << 14
SHORTEST_PIECE = {"cpu": 4096, "cuda": 1024}
PARTIAL_COLUMNS = 1 << 17
"""So many sums of columns at once keep a GPU busy."""
SHORTEST_COLUMN = 64
FEWEST_PIECES = 8
MOST_PIECES_OF_ROWS, FEWEST_PIECES_OF_ROWS = 16, 4
MANY_ELEMENTS = 1 << 17
FEW_NEIGHBOURS = range(2, 16)


def pieces_of(
    dims: ReducedDims, reads: Sequence[Strides], device: torch.device, *, exact: bool = False
) -> Size:
    """Choose how many partial results a reduction has along its first dimensions; () for one.

    Few outputs of many elements each would keep most processors idle. Dimensions are cut into
    equal pieces, so addresses stay linear. A number without divisors leaves a rest of the last
    dimension that is cut, unless the pieces must be `exact`.
    """
    outputs, count = product(dims.ranges), product(dims.reduction_ranges)
    if not (isinstance(outputs, int) and isinstance(count, int) and outputs and count):
        return ()
    kind = device.type if device.type in MOST_PIECES else "cpu"
    if kind == "cuda" and goes_across(dims, reads):
        most = min(PARTIAL_COLUMNS // outputs, count // SHORTEST_COLUMN)
        pieces = cut(dims.reduction_ranges, most, exact=exact)
        return pieces if math.prod(pieces) >= FEWEST_PIECES else ()
    is_many = outputs > SPLIT_BELOW_OUTPUTS[kind] and outputs * count >= MANY_ELEMENTS
    if kind == "cpu" and is_many and 0 in dims.reduced and goes_across(dims, reads):
        return _pieces_of_rows(dims.reduction_ranges, count)
    if outputs > SPLIT_BELOW_OUTPUTS[kind] or count < SPLIT_FROM_ELEMENTS:
        return ()
    most = min(MOST_PIECES[kind], MOST_PARTIAL_RESULTS // outputs)
    sizes = dims.reduction_ranges if kind == "cuda" else dims.reduction_ranges[:1]
    return cut(sizes, min(most, count // SHORTEST_PIECE[kind]), exact=exact)


def _pieces_of_rows(sizes: Size, count: int) -> Size:
    """Cut sums of columns on the CPU into pieces of rows, so that each thread keeps to its rows.

    The rows are then still in the processor's cache in which an earlier kernel has left them.
    """
    pieces = cut(sizes[:1], min(MOST_PIECES_OF_ROWS, count // SHORTEST_COLUMN))
    return pieces if math.prod(pieces) >= FEWEST_PIECES_OF_ROWS else ()


def goes_across(dims: ReducedDims, reads: Sequence[Strides]) -> bool:
    """Return whether neighbours in memory are reduced into different results, as columns are.

    Then a result has no threads of its own, and many rows are a long way. Strides in memory decide,
    not the order of dimensions: channels may be the innermost ones there.
    """
    kept = len(dims.ranges)
    return any(1 in strides[:kept] and any(strides[kept:]) for strides in reads)


def few_beside_others(dims: ReducedDims, reads: Sequence[Strides]) -> dict[int, int]:
    """Return the reduced dimension, and its size, of which few neighbours in memory make a result.

    The next few make another one, as in groups of channels that are innermost. A loop over a few
    would be shorter than a vector, and each line of the cache would be read for every group.
    """
    kept, sizes = len(dims.ranges), sorted(zip(dims.reduced, dims.reduction_ranges, strict=True))
    return {
        d: size
        for strides in reads
        for (d, size), step in zip(sizes, strides[kept:], strict=True)
        if isinstance(size, int) and step == 1 and size in FEW_NEIGHBOURS and len(sizes) > 1
        if size in strides[:kept]
    }


def reads_of(dims: ReducedDims, load: InnerFn) -> list[Strides]:
    """Return the strides of each read of `load` along the kept and the reduced dimensions."""
    symbols = index_symbols("c", len(dims.ranges) + len(dims.reduction_ranges))
    kept, recorder = len(dims.ranges), RecordingHandler()
    limits = tuple(zip(symbols, (*dims.ranges, *dims.reduction_ranges), strict=True))
    with use_handler(recorder):
        load(dims.join(symbols[:kept], symbols[kept:]))
    return [linear_access(name, simplify(i, limits), symbols).strides for name, i in recorder.reads]


def cut(sizes: Size, most: int, *, exact: bool = True) -> Size:
    """Choose numbers of pieces, at most `most` in all: the outer dimensions are cut first.

    Only the last of them may leave a rest, and only where the pieces need not be `exact`.
    """
    pieces: list[int] = []
    for size in sizes:
        pieces.append(_count_of_pieces(size, most, exact) if isinstance(size, int) else 1)
        most //= pieces[-1]
        if pieces[-1] != size:
            break
    return tuple(pieces) if math.prod(pieces) > 1 else ()


def _count_of_pieces(size: int, most: int, exact: bool) -> int:
    """Return the greatest divisor up to `most`; if it is small, the number with the least rest."""
    divisor = max((p for p in range(1, most + 1) if size % p == 0), default=1)
    if exact or size <= most or 2 * divisor >= most:
        return divisor
    count = min(range(most // 2 + 1, most + 1), key=lambda p: (size % p, -p))
    return count if size % count <= size // count else divisor


def _in_two_stages(
    dtype: torch.dtype, dims: ReducedDims, inner_fn: ReductionFn, kind: ReductionKind, pieces: Size
) -> TensorBox:
    """Partial results in the compute dtype, one for each piece, and their combination.

    The rest, which is shorter than a piece, is reduced by itself and combined last.
    """
    kept = compute_dtype(dtype)
    load = first_stage(kept, dims, inner_fn, kind, kept, pieces).make_loader()

    def combine(index: Index, reduction_index: Index) -> Value:
        return load((*reduction_index, *index))

    rest = _rest(dims, inner_fn, kind, kept, pieces)
    whole = dims.reduce(dtype if rest is None else kept, combine, pieces, kind, kept)
    if rest is None:
        return whole
    parts = whole.make_loader(), rest.make_loader()

    def both(index: Index) -> Value:
        result: Value = getattr(ops, COMBINE[kind])(*(part(index) for part in parts))
        return result

    return cast(TensorBox.create(Pointwise(dims.device, kept, dims.ranges, both)), dtype)


def first_stage(
    dtype: torch.dtype,
    dims: ReducedDims,
    inner_fn: ReductionFn,
    kind: ReductionKind,
    source: torch.dtype,
    pieces: Size,
) -> TensorBox:
    """Reduce each piece: a stored tensor of shape (*pieces, *kept dimensions) and `dtype`.

    `source` is the compute dtype of the values that are reduced. Pieces in which a position is
    looked for overlap where a size cannot be cut into equal ones; others leave a rest.
    """
    cut, others = dims.reduction_ranges[: len(pieces)], dims.reduction_ranges[len(pieces) :]
    spare = [count - 1 if kind in ("argmax", "argmin") else 0 for count in pieces]
    lengths = tuple(map(floor_div, map(operator.add, cut, spare), pieces))

    def partial(index: Index, reduction_index: Index) -> Value | tuple[Value, Value]:
        parts = zip(index, cut, pieces, lengths, reduction_index)
        heads = [to_expr(_start(*part) + within) for *part, within in parts]
        return inner_fn(index[len(pieces) :], (*heads, *reduction_index[len(pieces) :]))

    ranges, reduced = (*pieces, *dims.ranges), (*lengths, *others)
    stage = TensorBox.create(Reduction(dims.device, dtype, ranges, partial, reduced, kind, source))
    count = product(dims.reduction_ranges)
    stage.storage.realize(f"{count} elements are reduced in {math.prod(pieces)} pieces")
    return stage


def _start(piece: Expr, size: Expr, count: Expr, length: Expr) -> Expr:
    """Return where a piece begins; if pieces overlap, the last one ends where the size does."""
    overlaps = count * length > size
    return floor_div(piece * (size - length), count - 1) if overlaps else piece * length


def _rest(
    dims: ReducedDims, inner_fn: ReductionFn, kind: ReductionKind, kept: torch.dtype, pieces: Size
) -> TensorBox | None:
    """Reduce the elements that no piece contains; None if each element has its piece."""
    last, sizes = len(pieces) - 1, dims.reduction_ranges
    missing = sizes[last] % pieces[last]
    if not missing:
        return None
    start = sizes[last] - missing

    def inner(index: Index, reduction_index: Index) -> Value | tuple[Value, Value]:
        position = list(reduction_index)
        position[last] = to_expr(start + position[last])
        return inner_fn(index, tuple(position))

    ranges = (*sizes[:last], missing, *sizes[last + 1 :])
    return dims.reduce(kept, inner, ranges, kind, kept)


def accumulation_dtype(x: TensorBox, dtype: torch.dtype | None) -> torch.dtype:
    """Return the dtype of a sum or product: the asked one, or int64 for integers and bool."""
    return dtype or (x.dtype if x.dtype.is_floating_point else torch.int64)


def count_of(x: TensorBox, dim: Dims) -> Expr:
    """Return the number of elements that are reduced into one."""
    return product(x.size[d] for d in reduced_dims(x.ndim, dim))


def cast(x: TensorBox, dtype: torch.dtype) -> TensorBox:
    """Return `x` converted to `dtype`; `x` itself if it has that dtype."""
    return x if x.dtype == dtype else convert(x, dtype)
