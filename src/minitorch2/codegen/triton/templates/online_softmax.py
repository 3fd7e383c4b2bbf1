"""The kernel of an attention: no matrix of scores is ever stored.

The kernel visits the columns of the scores block by block. Each row has a running maximum and a
running sum (Rabe and Staats, "Self-attention does not need O(n^2) memory", 2021; Dao et al.,
"FlashAttention", 2022). The handler of all kernels prints the loop bodies of the schedule into its
loop. Columns that are hidden from all rows of a block are not visited (`columns.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from minitorch2.codegen.common import user_lines
from minitorch2.codegen.target import Kernel
from minitorch2.codegen.triton import KernelSource
from minitorch2.codegen.triton.arguments import KernelArguments
from minitorch2.codegen.triton.availability import is_interpreting
from minitorch2.codegen.triton.blocks import Blocks
from minitorch2.codegen.triton.domain import blocks_in
from minitorch2.codegen.triton.indexing import BATCH, RINDEX, XINDEX
from minitorch2.codegen.triton.kernel import is_wide
from minitorch2.codegen.triton.own_kernels import OwnKernelNode
from minitorch2.codegen.triton.templates.attention import (
    Attention,
    AttentionDomain,
    find_attentions,
)
from minitorch2.codegen.triton.templates.columns import visited
from minitorch2.codegen.triton.templates.sites import identity, replaced
from minitorch2.codegen.triton.templates.template import (
    CONSTANTS,
    TemplateHandler,
    decorator,
    load_template,
)
from minitorch2.codegen.triton.values import K, R, Value, X, Y, triton_dtype
from minitorch2.loopir.buffers import Buffer
from minitorch2.loopir.expressions import Expr, product, simplify
from minitorch2.loopir.lowered_graph import LoweredGraph
from minitorch2.loopir.ops import ReductionKind
from minitorch2.loopir.schedule import (
    BaseSchedulerNode,
    Capabilities,
    Schedule,
    SchedulerNode,
    bodies,
)


class AttentionNode(OwnKernelNode):
    """Attention as a node of the schedule."""

    def __init__(self, attention: Attention) -> None:
        super().__init__([identity(attention.values)])
        self.attention = attention
        given = attention
        self.absorbed = (*given.tables, given.scores, *bodies(given.softmax), given.values)
        self.origins = tuple(dict.fromkeys(o for node in self.absorbed for o in node.origins))

    def print_kernel(
        self, buffers: Mapping[str, Buffer], *, name: str, removed: Iterable[str] = ()
    ) -> Kernel[KernelSource]:
        """Return the kernel of the attention."""
        return print_attention_kernel(self, buffers, name=name, removed=removed)


def with_attention(lowered: LoweredGraph, plan: Schedule, capabilities: Capabilities) -> Schedule:
    """Return the schedule with each attention as one kernel that is worth it."""
    nodes: dict[BaseSchedulerNode, OwnKernelNode] = {}
    taken = set[BaseSchedulerNode]()
    for found in find_attentions(plan, lowered):
        if on_device(found) and found.is_worth():
            nodes[found.values] = AttentionNode(found)
            taken |= {found.scores, found.softmax}
    return replaced(lowered, plan, capabilities, nodes, taken)


def on_device(found: Attention) -> bool:
    """Return whether a kernel of Triton computes there."""
    return is_interpreting() or found.values.kernel.device.type == "cuda"


class _AttentionHandler(TemplateHandler):
    """The handler that keeps what a row's maximum is taken of; it stores nothing."""

    score: Value
    tables: Mapping[str, SchedulerNode]

    def load(self, name: str, index: Expr) -> Value:
        """Compute an element of a table where it is read."""
        if name in self.tables:
            return self.computed(self.tables[name], simplify(index, self.ranges))
        return super().load(name, index)

    def reduction(
        self,
        dtype: torch.dtype,
        src_dtype: torch.dtype,
        kind: ReductionKind,
        value: Value | tuple[Value, Value],
    ) -> Value:
        """Keep the values."""
        assert isinstance(value, Value)
        self.score = value
        return value

    def store_reduction(self, name: str, index: Expr, value: Value) -> None:
        """Store nothing: the loop of the kernel has the maximum."""

    def stored(self, name: str, index: Expr, value: Value) -> str:
        """Return the statement that stores a block of the result."""
        self._node_dims = value.dims
        return self._store_text(name, index, value)


def print_attention_kernel(
    node: AttentionNode, buffers: Mapping[str, Buffer], *, name: str, removed: Iterable[str] = ()
) -> Kernel[KernelSource]:
    """Return the kernel of an attention; arguments and errors are those of `print_kernel`."""
    attention, given, tile = node.attention, node.attention.sum, node.attention.tile()
    domain = AttentionDomain(Blocks(tile.x, tile.warps, y=tile.y, r=tile.k), given.m, sum=given)
    arguments = KernelArguments({})
    dtypes = {buffer: item.dtype for buffer, item in buffers.items()}
    dtypes[attention.scores.name] = torch.float32
    members = (*attention.softmax.nodes, attention.scores, *attention.tables)
    known: dict[str, Any] = {member.name: member for member in members}
    hidden = frozenset((*removed, *known))
    handler = _AttentionHandler(known, dtypes, domain, arguments, hidden, frozenset())
    handler.tables = {table.name: table for table in attention.tables}
    handler.body.varying = Y
    rows = [handler.index.text(size) for size in (given.m, blocks_in(given.m, tile.x))]
    parts = _print_parts(attention, handler)
    pointers, sizes = arguments.pointers(), arguments.sizes()
    first, last = visited(attention.tree, given, str(given.n))
    text = load_template("attention").render(
        parts,
        name=name,
        comments=user_lines(node),
        decorator=decorator(pointers, buffers, tile, handler.checks_indices),
        parameters=", ".join([p.name for p in (*pointers, *sizes)] + CONSTANTS),
        batches=given.batches,
        m=rows[0],
        tiles=rows[1],
        n=given.n,
        k=given.k,
        first=first,
        last=last,
        precision=given.precision,
        dtype=triton_dtype(attention.operand.view.layout.dtype),
        wide=is_wide(pointers, buffers, product((given.batches, given.m, given.k))),
        masked=domain.needs_mask,
    )
    programs = product((given.batches, blocks_in(given.m, tile.x)))
    names = tuple(str(pointer.value) for pointer in pointers)
    return Kernel(KernelSource(name, text), programs, names, tuple(size.value for size in sizes))


def _print_parts(attention: Attention, handler: _AttentionHandler) -> dict[str, object]:
    """Return the generated lines: before the loop, of its four parts, and after it."""
    given, body = attention.sum, handler.body
    head = len(body.outer)
    left = handler.operand(given.left, None, X | R)
    body.open_loop([])
    right = handler.operand(given.right, None, K | Y)
    keys = body.cut_loop()
    score = Value("score", torch.float32, X | Y)
    handler.know(attention.scores.name, given.flat(), score)
    handler.run(attention.leader)
    text = handler.score.text
    if handler.domain.needs_mask("y"):
        text = f"tl.where(ymask, {text}, float('-inf'))"
    scores = body.cut_loop()
    value = handler.operand(attention.operand, None, K | Y)
    values = body.leave_loop()
    before = body.outer[head:]
    kernel = attention.values.kernel
    row = 0 if given.m == 1 else XINDEX
    batch = 0 if given.batches == 1 else BATCH
    flat = simplify((batch * given.m + row) * given.k + RINDEX, given.ranges())
    stored = handler.stored(kernel.name, flat, Value("acc", torch.float32, X | R))
    after = [*body.outer[head + len(before) :], stored]
    return {
        "head": body.outer[:head], "before": before, "left": left, "keys": keys, "right": right,
        "scores": scores, "score": text, "values": values, "value": value, "after": after,
    }  # fmt: skip
