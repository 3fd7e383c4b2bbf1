"""Attention in a schedule: two products, with a softmax of any pointwise scores between them.

    result[x, c] = sum over y of softmax(f(scores))[x, y] * values[y, c]
    scores[x, y] = sum over r of left[x, r] * right[r, y]

`f` is what the loop bodies of the schedule say: a scale, masks, slopes, caps, tables of biases. The
kernel of an attention is printed by `online_softmax.py`.

    Attention ::= scores, softmax, values, tables   library call, fused kernel, library call,
                                                    kernels of biases
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from minitorch2.codegen.triton.blocks import Blocks, next_power_of_two
from minitorch2.codegen.triton.indexing import BATCH, KINDEX, XINDEX, YINDEX, unflatten
from minitorch2.codegen.triton.online import Tree, Trees
from minitorch2.codegen.triton.templates.contraction import Contraction, Operand
from minitorch2.codegen.triton.templates.sites import in_order
from minitorch2.codegen.triton.templates.template import Tile, TileDomain
from minitorch2.loopir.buffers import Buffer
from minitorch2.loopir.expressions import Expr, equal, product, simplify, to_expr
from minitorch2.loopir.layout import contiguous_strides, is_dense
from minitorch2.loopir.loops import Pointwise
from minitorch2.loopir.lowered_graph import LoweredGraph
from minitorch2.loopir.schedule import (
    ExternKernelSchedulerNode,
    FusedSchedulerNode,
    Schedule,
    SchedulerNode,
)

WIDEST: Final = 256
"""Of more elements of a row of `left` or of the result, a block leaves no room for others."""
FEWEST_ROWS: Final = 16
LARGE: Final = 2**32
"""Bytes of scores from which memory counts more than time."""


@dataclass(frozen=True)
class Attention:
    """The nodes of a schedule that are one kernel, and the body that finds a row's maximum.

    Attributes:
        sum: the scores.
        operand: the values, a row of them down a column of a block.
        tree: what the maximum is taken of.
        tables: kernels of biases that are larger than what they are computed of. Their elements
            are computed where they are read, so that no table grows with the square of the length.
    """

    scores: ExternKernelSchedulerNode
    softmax: FusedSchedulerNode
    values: ExternKernelSchedulerNode
    sum: Contraction
    operand: Operand
    leader: SchedulerNode
    tree: Tree
    tables: tuple[SchedulerNode, ...] = ()

    def tile(self) -> Tile:
        """Return how the kernel is cut."""
        width = max(16, next_power_of_two(self.sum.k))
        is_short = self.values.kernel.dtype.itemsize == 2
        # Few rows leave registers for scores that are hard to compute; wide ones read more often.
        most = 128 if is_short and width > 64 else 64
        rows = min(most, next_power_of_two(_least(self.sum.m, most)))
        columns = min(64 if is_short and width <= 128 else 32, next_power_of_two(self.sum.n))
        warps = 8 if width > 64 and rows > 64 else 4
        return Tile(max(16, rows), max(16, columns), width, warps, 3 if is_short else 2)

    def is_worth(self) -> bool:
        """Return whether the kernel is faster than two calls, or saves much memory.

        Float32 without TF32 has no tensor cores here, and the library is several times as fast.
        """
        given, dtype = self.sum, self.values.kernel.dtype
        elements = product((given.batches, given.m, given.n))
        is_large = not isinstance(elements, int) or elements * dtype.itemsize >= LARGE
        return dtype.itemsize == 2 or given.precision == "tf32" or is_large


def _least(size: Expr, most: int) -> int:
    return min(size, most) if isinstance(size, int) else most


class AttentionDomain(TileDomain):
    """The domain of scores: a body's kept loops are rows, and its reduction the columns."""

    def index(self, node: SchedulerNode) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        """Return the index and the reduction index of a body in terms of batch, row and column."""
        given, limits = self.sum, self.ranges()
        batch, x, y = (
            0 if size == 1 else symbol
            for symbol, size in ((BATCH, given.batches), (XINDEX, given.m), (YINDEX, given.n))
        )
        if node.covers_reduction and not node.has_inner_loops:
            flat = simplify((batch * given.m + x) * given.n + y, limits)
            return unflatten(flat, node.sizes, limits), ()
        rows = simplify(to_expr(batch * given.m + x), limits)
        return unflatten(rows, node.ranges, limits), unflatten(y, node.reduction_ranges, limits)


def find_attentions(plan: Schedule, lowered: LoweredGraph) -> Iterator[Attention]:
    """Yield the attentions of a schedule whose scores and weights have no other reader."""
    outputs, buffers = lowered.output_names, lowered.by_name()
    calls = {node.name: node for node in plan.nodes if isinstance(node, ExternKernelSchedulerNode)}
    readers: dict[str, list[object]] = {}
    for node in plan.nodes:
        for name in node.read_names:
            readers.setdefault(name, []).append(node)
    for softmax in plan.nodes:
        if not isinstance(softmax, FusedSchedulerNode) or not softmax.has_inner_loops:
            continue
        stored = softmax.written_names - plan.removed
        (weights,) = stored if len(stored) == 1 else (None,)
        users = readers.get(weights or "", [])
        if weights is None or weights in outputs or len(users) != 1:
            continue
        for name in softmax.read_names & calls.keys():
            if readers[name] == [softmax] and name not in outputs and users[0] in calls.values():
                found = _attention(calls[name], softmax, users[0], weights)  # type: ignore[arg-type]
                if found is not None:
                    producers = [n for n in plan.nodes if isinstance(n, SchedulerNode)]
                    tables = (n for n in producers if readers.get(n.name) == [softmax])
                    yield replace(
                        found,
                        tables=tuple(
                            n for n in tables if _grows(n, buffers) and n.name not in outputs
                        ),
                    )
                    break


def _grows(node: SchedulerNode, buffers: Mapping[str, Buffer]) -> bool:
    """Return whether a kernel computes the elements of a dense buffer from few numbers."""
    layout, *others = (buffers[name].fixed_layout() for name in (node.name, *node.read_names))
    read = sum(product(other.size) for other in others)
    total = product(layout.size)
    is_plain = isinstance(node.buffer.loops, Pointwise) and layout.offset == 0
    is_known = isinstance(total, int) and isinstance(read, int)
    return is_plain and is_dense(layout.size, layout.stride) and is_known and 4 * read < total


def _attention(
    first: ExternKernelSchedulerNode,
    softmax: FusedSchedulerNode,
    last: ExternKernelSchedulerNode,
    weights: str,
) -> Attention | None:
    scores, values = Contraction.of(first.kernel), Contraction.of(last.kernel)
    if scores is None or values is None or not _fit(scores, values, softmax, weights):
        return None
    stored = next(body for body in softmax.nodes if body.name == weights)
    if not all(in_order(access, stored) for access in stored.writes_of):
        return None
    domain = AttentionDomain(Blocks(16, 4, y=16, r=16), scores.m, sum=scores)
    trees = Trees(softmax.nodes, domain.index)
    tree = softmax_of(trees.of(stored))
    maxima = (b for b in softmax.nodes if b.is_reduction and trees.of(b) == ("max", tree))
    leader = next(maxima, None)
    reads = ((access, body) for body in softmax.nodes for access in body.reads_of)
    if (
        leader is None
        or tree is None
        or not all(in_order(*read) for read in reads if read[0].name == first.name)
    ):
        return None
    *batch, _, _ = values.right.index
    operand = Operand(values.right.view, (*batch, YINDEX, KINDEX))
    return Attention(first, softmax, last, scores, operand, leader, tree)


def _fit(
    scores: Contraction, values: Contraction, softmax: FusedSchedulerNode, weights: str
) -> bool:
    """Return whether the weights are exactly what is multiplied by the values, in its order."""
    view = values.left.view
    size = (
        (scores.m, scores.n) if len(view.layout.size) == 2 else (scores.batches, scores.m, scores.n)
    )
    is_whole = (
        view.name == weights
        and values.right.view.name != weights
        and view.layout.size == size
        and view.layout.stride == contiguous_strides(size)
        and view.layout.offset == 0
    )
    is_plain = scores.bias is None and values.bias is None and scores.taps == values.taps == 1
    rows, columns = product((scores.batches, scores.m)), scores.n
    sizes = softmax.group
    return (
        is_whole
        and is_plain
        and scores.k == values.n <= WIDEST
        and not (isinstance(scores.m, int) and scores.m < FEWEST_ROWS)
        and equal(sizes[0], rows)
        and equal(sizes[1], columns)
        and len({scores.left.view.layout.dtype, values.right.view.layout.dtype}) == 1
    )


def softmax_of(tree: Tree) -> Tree | None:
    """Return x if the tree is ``exp(x - max(x)) / sum(exp(x - max(x)))``, rounded or not."""
    match tree:
        case ("to_dtype", _, inner):
            return softmax_of(inner)  # type: ignore[arg-type]
        case (
            ("truediv", ("exp", ("sub", x, ("max", y))) as one, ("sum", other))
            | ("mul", ("exp", ("sub", x, ("max", y))) as one,
               ("truediv", ("constant", 1.0, _), ("sum", other)))
        ):  # fmt: skip
            return x if x == y and one == other else None  # type: ignore[return-value]
    return None
