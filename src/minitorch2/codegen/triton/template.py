"""Matrix products with what is done to them, as one kernel from a template.

A library multiplies faster than generated code, but it has to write its result before others can
read it. A template is a kernel by hand with holes (PyTorch 2 paper, sections 4.5 and 6.4): here
the strides, the block sizes, and the *epilogue*, which is a pointwise kernel of the schedule,
printed by the same handler as always. Only that the product it reads is in registers already.

    TemplateNode ::= product, nodes     product: mm, addmm, bmm or baddbmm as a library would do it
                                        nodes: loop bodies, the only readers of the product
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import jinja2
import torch

from minitorch2.codegen.common import user_lines
from minitorch2.codegen.triton.arguments import KernelArgument, KernelArguments
from minitorch2.codegen.triton.blocks import Blocks
from minitorch2.codegen.triton.domain import KernelDomain
from minitorch2.codegen.triton.handler import TritonHandler
from minitorch2.codegen.triton.indexing import INT32_MAX, XINDEX, YINDEX, unflatten
from minitorch2.codegen.triton.kernel import KernelSource, TritonKernel
from minitorch2.codegen.triton.values import TRITON_POINTERS, Value, X, Y
from minitorch2.loopir.buffers import Buffer, BufferView, ExternKernel
from minitorch2.loopir.expressions import Expr, product, simplify
from minitorch2.loopir.iteration import Access
from minitorch2.loopir.layout import FixedLayout, contiguous_strides
from minitorch2.loopir.ops import compute_dtype
from minitorch2.loopir.schedule import (
    BaseSchedulerNode,
    ExternKernelSchedulerNode,
    FusedSchedulerNode,
    KernelNode,
    Schedule,
    SchedulerNode,
    bodies,
)

aten = torch.ops.aten
_GROUP: Final = 8
_DTYPES: Final = (torch.float16, torch.bfloat16, torch.float32)
_LIBRARY: Final = {  # with a bias in front of the operands, or without
    aten.mm.default: False,
    aten.bmm.default: False,
    aten.addmm.default: True,
}


@dataclass(frozen=True)
class Tile:
    """One way to cut a product: sizes of a block, warps, and steps of the loop in flight."""

    x: int
    y: int
    k: int
    warps: int
    stages: int


TILES: Final = (
    Tile(128, 128, 64, 8, 3),
    Tile(128, 256, 64, 8, 3),
    Tile(256, 128, 64, 8, 3),
    Tile(128, 128, 32, 4, 4),
    Tile(64, 128, 64, 4, 4),
    Tile(128, 64, 64, 4, 4),
    Tile(64, 64, 64, 4, 4),
    Tile(32, 64, 64, 4, 5),
    Tile(16, 64, 128, 4, 4),
)
"""What the autotuner tries."""


@dataclass(frozen=True)
class Product:
    """`batches` products of (m, k) and (k, n), with where their operands lie."""

    batches: int
    m: int
    n: int
    k: int
    a: BufferView
    b: BufferView
    bias: BufferView | None

    @staticmethod
    def of(kernel: ExternKernel) -> Product | None:
        """The product that a library call does; None for other calls and varying sizes."""
        has_bias = _LIBRARY.get(kernel.target)  # type: ignore[call-overload]
        if has_bias is None or kernel.kwargs or len(kernel.args) != 2 + has_bias:
            return None
        a, b = kernel.args[-2:]
        layout, bias = kernel.fixed_layout(), kernel.args[0] if has_bias else None
        views = [view for view in (a, b, bias) if view is not None]
        numbers = (*layout.size, *(part for v in views for part in (*v.layout.size,
                   *v.layout.stride, v.layout.offset)))  # fmt: skip
        is_known = all(isinstance(number, int) for number in numbers)
        if not is_known or layout.dtype not in _DTYPES or not layout.is_contiguous():
            return None
        if bias is not None and len(bias.layout.size) != 1:
            return None
        *batches, m, n = layout.size
        sizes = [int(size) for size in (*(batches or [1]), m, n, a.layout.size[-1])]
        if 0 in sizes:
            return None
        return Product(sizes[0], sizes[1], sizes[2], sizes[3], a, b, bias)


class TemplateNode(FusedSchedulerNode):
    """A product and the bodies that read it, as one kernel cut into tiles."""

    def __init__(self, node: ExternKernelSchedulerNode, epilogue: KernelNode, tile: Tile) -> None:
        super().__init__(bodies(epilogue))
        self.product = node
        self.tile = tile
        self.origins = (*node.origins, *self.origins)

    @property
    def members(self) -> list[BaseSchedulerNode]:
        """The product and the bodies."""
        return [self.product, *self.nodes]

    @property
    def read_names(self) -> frozenset[str]:
        """The operands, and what the bodies read."""
        return super().read_names | self.product.read_names

    @property
    def written_names(self) -> frozenset[str]:
        """The product, which needs no memory, and what the bodies write."""
        return super().written_names | self.product.written_names


def find_templates(
    schedule: Schedule, outputs: Iterable[str]
) -> Iterator[tuple[ExternKernelSchedulerNode, KernelNode]]:
    """Products whose only reader is a pointwise kernel over their elements."""
    kept, taken = set(outputs), set[int]()
    for node in schedule.nodes:
        if not isinstance(node, ExternKernelSchedulerNode) or node.name in kept:
            continue
        product_ = Product.of(node.kernel)
        readers = [other for other in schedule.nodes if node.name in other.read_names]
        if product_ is None or len(readers) != 1 or id(readers[0]) in taken:
            continue
        (reader,) = readers
        if not isinstance(reader, SchedulerNode | FusedSchedulerNode):
            continue
        if _fits(reader, node.name, product_):
            taken.add(id(reader))
            yield node, reader


def _fits(epilogue: KernelNode, name: str, given: Product) -> bool:
    """Whether a kernel visits exactly the product's elements, and each body once."""
    elements = given.batches * given.m * given.n
    return elements < INT32_MAX and all(
        not body.is_reduction
        and product(body.sizes) == elements
        and body.buffer.base is None
        and body.buffer.device == given.a.buffer.device
        and all(_in_order(access, body) for access in body.reads_of if access.name == name)
        for body in bodies(epilogue)
    )


def _in_order(access: Access, body: SchedulerNode) -> bool:
    return access.offset == 0 and access.strides == contiguous_strides(body.sizes)


@dataclass(frozen=True)
class _TileDomain(KernelDomain):
    """Rows of all batches by columns; the last block of rows is cut at each batch's end."""

    rows: int = 1

    def needs_mask(self, name: str) -> bool:
        """Whether rows or columns do not fill the blocks."""
        if name == "x":
            return self.rows % self.blocks.x != 0
        assert isinstance(self.ynumel, int) and self.blocks.y is not None
        return name == "y" and self.ynumel % self.blocks.y != 0

    def index(self, node: SchedulerNode) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        """The index of a body in terms of row and column."""
        flat = XINDEX * self.ynumel + YINDEX
        return unflatten(flat, node.ranges, self.ranges()), ()


@cache
def _template() -> jinja2.Template:
    text = Path(__file__).with_name("matmul.py.jinja").read_text(encoding="utf-8")
    template: jinja2.Template = jinja2.Template(
        text, undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    return template


def print_template_kernel(
    node: TemplateNode, buffers: Mapping[str, Buffer], *, name: str, removed: Iterable[str] = ()
) -> TritonKernel:
    """The kernel of a product with its epilogue.

    Raises:
        LoweringError: Triton has no such dtype or index arithmetic.
    """
    given = Product.of(node.product.kernel)
    assert given is not None
    tile = node.tile
    blocks = Blocks(tile.x, tile.warps, y=tile.y)
    domain = _TileDomain(blocks, given.batches * given.m, ynumel=given.n, rows=given.m)
    arguments = KernelArguments({})
    names = [arguments.input(view.name) for view in (given.a, given.b)]
    bias = None if given.bias is None else arguments.input(given.bias.name)
    handler = _print_epilogue(node, buffers, domain, arguments, frozenset(removed))
    pointers = arguments.pointers()
    tiles = -(-given.m // tile.x), -(-given.n // tile.y)
    text = _template().render(
        _holes(given, tile, domain),
        name=name,
        comments=user_lines(node),
        decorator=_decorator(pointers, buffers, tile, handler.checks_indices),
        parameters=", ".join([*(p.name for p in pointers), *_CONSTANTS]),
        tiles_x=tiles[0],
        tiles_y=tiles[1],
        a=names[0],
        b=names[1],
        bias=bias,
        epilogue=handler.body.outer,
    )
    source = KernelSource(name, text)
    programs = given.batches * tiles[0] * tiles[1]
    return TritonKernel(source, programs, tuple(str(p.value) for p in pointers), ())


_CONSTANTS: Final = [f"{name}: tl.constexpr" for name in ("XBLOCK", "YBLOCK", "KBLOCK")]


def _holes(given: Product, tile: Tile, domain: _TileDomain) -> dict[str, object]:
    """What the template says of sizes and of where the operands lie."""
    a, b, bias = given.a.layout, given.b.layout, given.bias and given.bias.layout
    return {
        "batches": given.batches, "m": given.m, "n": given.n, "k": given.k, "group": _GROUP,
        "a_at": _start(a, given.batches), "a_strides": a.stride[-2:],
        "b_at": _start(b, given.batches), "b_strides": b.stride[-2:],
        "bias_at": bias.offset if bias else 0, "bias_stride": bias.stride[0] if bias else 0,
        "mask_x": domain.needs_mask("x"), "mask_y": domain.needs_mask("y"),
        "mask_k": given.k % tile.k != 0, "precision": _precision(given),
    }  # fmt: skip


def _decorator(
    pointers: Sequence[KernelArgument], buffers: Mapping[str, Buffer], tile: Tile, checks: bool
) -> str:
    types = " ".join(TRITON_POINTERS[buffers[str(p.value)].dtype] for p in pointers)
    sizes = f"XBLOCK={tile.x}, YBLOCK={tile.y}, KBLOCK={tile.k}"
    text = f'pointers="{types}", {sizes}, num_warps={tile.warps}, num_stages={tile.stages}'
    return f"@template({text}{', checks_indices=True' if checks else ''})"


def _print_epilogue(
    node: TemplateNode,
    buffers: Mapping[str, Buffer],
    domain: _TileDomain,
    arguments: KernelArguments,
    removed: frozenset[str],
) -> TritonHandler:
    kernel = node.product.kernel
    nodes: dict[str, Any] = {body.name: body for body in node.nodes} | {kernel.name: node.product}
    dtypes = {buffer: item.dtype for buffer, item in buffers.items()}
    handler = TritonHandler(nodes, dtypes, domain, arguments, removed, frozenset())
    index = simplify(XINDEX * domain.ynumel + YINDEX, domain.ranges())
    handler.know(kernel.name, index, Value("acc", compute_dtype(kernel.dtype), X | Y))
    for body in node.nodes:
        handler.run(body)
    return handler


def _start(layout: FixedLayout, batches: int) -> str:
    """Where an operand of this batch begins."""
    return f"{layout.offset} + batch * {layout.stride[0]}" if batches > 1 else str(layout.offset)


def _precision(given: Product) -> str:
    """How float32 operands are multiplied: as PyTorch's switch says."""
    is_float32 = given.a.buffer.dtype == torch.float32
    return "ieee" if is_float32 and not torch.backends.cuda.matmul.allow_tf32 else "tf32"


__all__ = [
    "TILES",
    "Product",
    "TemplateNode",
    "Tile",
    "find_templates",
    "print_template_kernel",
]
