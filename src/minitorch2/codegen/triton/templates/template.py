"""Products and convolutions, with work before and after, as one kernel from a template.

A library multiplies faster than generated code, but its operands have to be in memory before, and
it writes its result to memory before others can read it. A template is a handwritten kernel with
holes (PyTorch 2 paper, sections 4.5 and 6.4). Its loop over tiles is written by hand. The
computation of an operand's element (the *prologue*) and of results from a sum (the *epilogue*) are
bodies of the schedule, printed by the usual handler. But the sum that an epilogue reads is in
registers, and a prologue's result stays inside the kernel.

    TemplateNode ::= site, prologues, tile    some of the site's prologues, and how it is cut
    site         ::= Site(product, prologues, epilogue)          see `sites.py`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import jinja2
import torch

from minitorch2.codegen.common import user_lines
from minitorch2.codegen.target import Kernel
from minitorch2.codegen.triton import KernelSource
from minitorch2.codegen.triton.arguments import KernelArgument, KernelArguments
from minitorch2.codegen.triton.blocks import Blocks
from minitorch2.codegen.triton.domain import KernelDomain, blocks_in
from minitorch2.codegen.triton.handler import TritonHandler
from minitorch2.codegen.triton.indexing import YINDEX, unflatten
from minitorch2.codegen.triton.kernel import is_wide, pointer_types
from minitorch2.codegen.triton.own_kernels import OwnKernelNode
from minitorch2.codegen.triton.templates.contraction import Contraction, Operand
from minitorch2.codegen.triton.templates.sites import Site
from minitorch2.codegen.triton.values import (
    Dimensions,
    K,
    R,
    Value,
    X,
    Y,
    triton_dtype,
)
from minitorch2.loopir.buffers import Buffer
from minitorch2.loopir.expressions import Expr, Ranges, modular_indexing, product, simplify
from minitorch2.loopir.layout import FixedLayout
from minitorch2.loopir.ops import compute_dtype, use_handler
from minitorch2.loopir.schedule import SchedulerNode

_GROUP: Final = 8


@dataclass(frozen=True)
class Tile:
    """One way to cut a sum: sizes of a block, warps, and steps of the loop in flight."""

    x: int
    y: int
    k: int
    warps: int
    stages: int


TILES: Final = (
    Tile(128, 128, 64, 8, 3),
    Tile(128, 256, 64, 8, 3),
    Tile(128, 256, 64, 8, 4),
    Tile(128, 128, 64, 4, 3),
    Tile(64, 128, 64, 4, 4),
    Tile(128, 64, 64, 4, 4),
    Tile(64, 64, 64, 4, 4),
    Tile(128, 64, 32, 4, 4),
    Tile(32, 64, 128, 4, 4),
    Tile(16, 64, 128, 4, 4),
    Tile(16, 32, 256, 4, 4),
)
"""What the autotuner tries."""


class TemplateNode(OwnKernelNode):
    """A site as one kernel cut into tiles, which computes `prologues` as it loads them."""

    def __init__(self, site: Site, tile: Tile, prologues: Sequence[SchedulerNode]) -> None:
        super().__init__(site.stores)
        self.site = site
        self.tile = tile
        self.prologues = tuple(prologues)
        self.absorbed = (*self.prologues, site.product)
        before = [origin for node in (*prologues, site.product) for origin in node.origins]
        self.origins = tuple(dict.fromkeys((*before, *self.origins)))

    def __str__(self) -> str:
        tile, computed = self.tile, " + ".join(["", *(node.name for node in self.prologues)])
        size = f"{tile.x} x {tile.y} x {tile.k}"
        return f"{size}, {tile.warps} warps, {tile.stages} stages{computed}"

    def print_kernel(
        self, buffers: Mapping[str, Buffer], *, name: str, removed: Iterable[str] = ()
    ) -> Kernel[KernelSource]:
        """Return the kernel of the site."""
        return print_template_kernel(self, buffers, name=name, removed=removed)


@dataclass(frozen=True, kw_only=True)
class TileDomain(KernelDomain):
    """Blocks of a sum: [x, r] of the left operand, [k, y] of the right one, [x, y] of the result.

    `sum` has the rows, columns and elements that they cover.
    """

    sum: Contraction

    def extents(self) -> dict[str, Expr]:
        """Return the numbers of rows, of columns, and of summed elements for each operand."""
        k = self.sum.k
        return {"xnumel": self.sum.m, "ynumel": self.sum.n, "rnumel": k, "knumel": k}

    def ranges(self) -> Ranges:
        """Return the ranges of all indices."""
        return self.sum.ranges()

    def needs_mask(self, name: str) -> bool:
        """Return whether blocks are cut off at an end."""
        blocks = {"x": self.blocks.x, "y": self.blocks.y, "r": self.blocks.r, "k": self.blocks.r}
        extent = self.extents()[f"{name}numel"]
        return not (isinstance(extent, int) and extent % (blocks[name] or 1) == 0)

    def shape(self, dims: Dimensions) -> str:
        """Return the shape of the block of an operand or of the result that varies along `dims`."""
        first = "XBLOCK" if dims & X else "RBLOCK" if dims & K else 1
        second = "RBLOCK" if dims & R else "YBLOCK" if dims & Y else 1
        return f"[{first}, {second}]"

    def stored_along(self, node: SchedulerNode) -> Dimensions:
        """Return the dimensions of a whole block, which every body of an epilogue stores."""
        return X | Y

    def index(self, node: SchedulerNode) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        """Return the index of a body in terms of batch, row and column."""
        return unflatten(self.sum.flat(), node.ranges, self.ranges()), ()


class TemplateHandler(TritonHandler):
    """The handler that prints operands into the loop of the sum, and the epilogue after it."""

    def operand(self, operand: Operand, producer: SchedulerNode | None, dims: Dimensions) -> str:
        """Return a block of an operand, [x, r] or [k, y], with zeros outside of the operand."""
        masks = [self._position_mask(position, size) for position, size in operand.inside]
        self._masks += masks
        text, found = self._element(operand, producer)
        del self._masks[len(self._masks) - len(masks) :]
        if found < dims:
            text = f"tl.broadcast_to({text}, {self.domain.shape(dims)})"
        wanted = self._mask(dims & (R | K))
        conditions = [mask.text for mask in masks] + [wanted] * bool(wanted)
        if conditions and (producer is not None or found < dims):
            text = f"tl.where({' & '.join(conditions)}, {text}, 0.0)"
        return text

    def _position_mask(self, position: Expr, size: int) -> Value:
        dims = self.index.dims(position)
        text = self.index.text(position)
        if not dims & X:  # a number, but masks are blocks
            text += f" + tl.full({self.domain.shape(dims)}, 0, tl.int32)"
        text = self.body.assign(text, dims, "i")
        return Value(f"({text} >= 0) & ({text} < {size})", torch.bool, dims)

    def _element(self, operand: Operand, producer: SchedulerNode | None) -> tuple[str, Dimensions]:
        """Return an operand's element as memory would hold it: loaded, or computed by its body."""
        address = simplify(operand.address, self.ranges)
        if producer is None:
            text, dims = self._read(operand.view.name, address)
            return text, dims - {"t"}
        layout = producer.buffer.fixed_layout()
        value = self.computed(
            producer, address, operand.index if layout == operand.view.layout else None
        )
        return f"{value.text}.to({triton_dtype(layout.dtype)})", value.dims - {"t"}

    def computed(
        self, producer: SchedulerNode, address: Expr, index: Sequence[Expr] | None = None
    ) -> Value:
        """Return the element of a buffer at an address, computed by its body."""
        layout = producer.buffer.fixed_layout()
        index = index or _index_of(address, layout, self.ranges)
        with use_handler(self):
            producer.buffer.run(index)
        return self._forward(producer.name, simplify(layout.index(index), self.ranges))


def _index_of(address: Expr, layout: FixedLayout, ranges: Ranges) -> tuple[Expr, ...]:
    """Return the index of the element of a dense tensor at an address."""
    pairs = zip(layout.size, layout.stride, strict=True)
    return tuple(
        0 if size == 1 else simplify(modular_indexing(address, step, size), ranges)
        for size, step in pairs
    )


@cache
def load_template(name: str) -> jinja2.Template:
    """Return the text of a kernel with holes."""
    text = Path(__file__).with_name(f"{name}.py.jinja").read_text(encoding="utf-8")
    template: jinja2.Template = jinja2.Template(
        text, undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    return template


def print_template_kernel(
    node: TemplateNode, buffers: Mapping[str, Buffer], *, name: str, removed: Iterable[str] = ()
) -> Kernel[KernelSource]:
    """Return the kernel of a template; arguments and errors are those of `print_kernel`."""
    given, tile = node.site.sum, node.tile
    blocks = Blocks(tile.x, tile.warps, y=tile.y, r=tile.k)
    domain = TileDomain(blocks, given.m, sum=given)
    arguments = KernelArguments({})
    unstored = frozenset((*removed, *(member.name for member in node.prologues)))
    known: dict[str, Any] = {member.name: member for member in node.members}
    dtypes = {buffer: item.dtype for buffer, item in buffers.items()}
    handler = TemplateHandler(known, dtypes, domain, arguments, unstored, frozenset())
    tiles = [blocks_in(given.m, tile.x), blocks_in(given.n, tile.y)]
    counts = [handler.index.text(count) for count in (given.m, tiles[0])]
    parts = _print_parts(node, handler)
    pointers, sizes = arguments.pointers(), arguments.sizes()
    text = load_template("contraction").render(
        parts,
        name=name,
        comments=user_lines(node),
        decorator=decorator(pointers, buffers, tile, handler.checks_indices),
        parameters=", ".join([p.name for p in (*pointers, *sizes)] + CONSTANTS),
        given=given,
        m=counts[0],
        tiles_x=counts[1],
        tiles_y=tiles[1],
        steps=blocks_in(given.k, tile.k),
        group=_GROUP,
        wide=is_wide(pointers, buffers, given.elements),
        masked=domain.needs_mask,
    )
    programs = product((given.batches, *tiles))
    return Kernel(
        KernelSource(name, text),
        programs,
        tuple(str(pointer.value) for pointer in pointers),
        tuple(size.value for size in sizes),
    )


CONSTANTS: Final = [f"{name}: tl.constexpr" for name in ("XBLOCK", "YBLOCK", "RBLOCK")]


def _print_parts(node: TemplateNode, handler: TemplateHandler) -> dict[str, object]:
    """Return the generated lines: of sizes; before, in and after the loop; and the operands."""
    given, body = node.site.sum, handler.body
    head = list(body.outer)
    producers = {prologue.name: prologue for prologue in node.prologues}
    body.open_loop([])
    left, right = (
        handler.operand(operand, producers.get(operand.view.name), dims)
        for operand, dims in ((given.left, X | R), (given.right, K | Y))
    )
    loop = body.leave_loop()
    handler.forget_loop_values()
    before = body.outer[len(head) :]
    if given.bias is not None:
        bias = handler.load(given.bias.name, given.bias.layout.index((YINDEX,)))
        body.line(f"acc += {bias.text}", X | Y)
    kernel = node.site.product.kernel
    acc = Value("acc", compute_dtype(kernel.dtype), X | Y)
    handler.know(kernel.name, given.flat(), acc)
    for stored in node.nodes:
        handler.run(stored)
    after = body.outer[len(head) + len(before) :]
    operands = {"left": left, "right": right}
    return {"head": head, "before": before, "loop": loop, **operands, "after": after}


def decorator(
    pointers: Sequence[KernelArgument], buffers: Mapping[str, Buffer], tile: Tile, checks: bool
) -> str:
    """Return the line before the kernel that says how it is compiled."""
    types = " ".join(pointer_types(pointers, buffers))
    sizes = f"XBLOCK={tile.x}, YBLOCK={tile.y}, RBLOCK={tile.k}"
    text = f'pointers="{types}", {sizes}, num_warps={tile.warps}, num_stages={tile.stages}'
    return f"@template({text}{', checks_indices=True' if checks else ''})"


__all__ = ["TILES", "TemplateNode", "Tile", "print_template_kernel"]
