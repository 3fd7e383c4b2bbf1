"""The domain of a kernel: the elements it iterates over, and their blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from minitorch2.codegen.triton.blocks import Blocks, pointwise_blocks, reduction_blocks, tile_blocks
from minitorch2.codegen.triton.indexing import RINDEX, XINDEX, YINDEX, unflatten
from minitorch2.codegen.triton.passes import split_into_passes
from minitorch2.codegen.triton.values import Dimensions, R, X, Y
from minitorch2.loopir.buffers import Buffer
from minitorch2.loopir.expressions import Expr, Ranges, floor_div, product
from minitorch2.loopir.iteration import Access
from minitorch2.loopir.loop_order import unit_steps
from minitorch2.loopir.schedule import KernelNode, SchedulerNode, bodies

SMALLEST_TILE = 16
"""Tiles pay only if both of their sides have so many elements."""


@dataclass(frozen=True)
class KernelDomain:
    """The elements that are kept are numbered by xindex, or by xindex and yindex in tiles: then
    x has the first `tile_dims` loops. `rnumel` elements are reduced to each of them, if any."""

    blocks: Blocks
    xnumel: Expr
    ynumel: Expr | None = None
    rnumel: Expr | None = None
    tile_dims: int | None = None

    @property
    def looped(self) -> bool:
        """True if the reduced elements are visited block by block."""
        return self.rnumel is not None and not self.blocks.persistent

    @property
    def programs(self) -> Expr:
        """The number of blocks, which is the size of the grid."""
        count = blocks_in(self.xnumel, self.blocks.x)
        if self.ynumel is None or self.blocks.y is None:
            return count
        return product((count, blocks_in(self.ynumel, self.blocks.y)))

    def extents(self) -> dict[str, Expr]:
        """Return `xnumel`, and `ynumel` and `rnumel` if the kernel has them."""
        sizes = {"xnumel": self.xnumel, "ynumel": self.ynumel, "rnumel": self.rnumel}
        return {name: size for name, size in sizes.items() if size is not None}

    def ranges(self) -> Ranges:
        """Return the ranges of xindex, yindex and rindex."""
        symbols = {"xnumel": XINDEX, "ynumel": YINDEX, "rnumel": RINDEX}
        return tuple((symbols[name], size) for name, size in self.extents().items())

    def needs_mask(self, name: str) -> bool:
        """Return whether the last block along a dimension (`"x"`, `"y"`, `"r"`) may be cut off."""
        extent = self.extents().get(f"{name}numel")
        block = {"x": self.blocks.x, "y": self.blocks.y, "r": self.blocks.r}[name]
        if extent is None or block is None:
            return False
        is_whole = isinstance(extent, int) and extent > 0 and extent % block == 0
        return not is_whole

    def shape(self, dims: Dimensions) -> str:
        """Return the shape of a block that varies along `dims`."""
        second = "RBLOCK" if self.rnumel is not None else "YBLOCK"
        if self.rnumel is None and self.ynumel is None:
            return "[XBLOCK]"
        return f"[{'XBLOCK' if 'x' in dims else 1}, {second if dims & (R | Y) else 1}]"

    def stored_along(self, node: SchedulerNode) -> Dimensions:
        """Return the dimensions along which a nest stores its result."""
        if self.ynumel is not None:
            return X | Y
        inside = self.rnumel is not None and node.covers_reduction and not node.is_reduction
        return X | R if inside else X

    def index(self, node: SchedulerNode) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        """Return the index and the reduction index of a nest, as expressions of xindex, ..."""
        limits = self.ranges()
        if self.tile_dims is not None:
            rows, columns = node.ranges[: self.tile_dims], node.ranges[self.tile_dims :]
            return (*unflatten(XINDEX, rows, limits), *unflatten(YINDEX, columns, limits)), ()
        reduced = unflatten(RINDEX, node.reduction_ranges, limits)
        return unflatten(XINDEX, node.ranges, limits), reduced


def blocks_in(numel: Expr, block: int) -> Expr:
    """Return the number of blocks that cover `numel` elements."""
    return numel if block == 1 else floor_div(numel + block - 1, block)


def reduces(kernel: KernelNode) -> bool:
    """Return whether any nest of the kernel is a reduction, even over one element."""
    return any(node.has_inner_loops for node in bodies(kernel))


def choose_domain(
    kernel: KernelNode, buffers: Mapping[str, Buffer], removed: frozenset[str]
) -> KernelDomain:
    """Decide the shape of a kernel and its blocks."""
    numel, rnumel = kernel.group
    nodes = bodies(kernel)
    if reduces(kernel):
        passes = split_into_passes(nodes, removed, reduces=True, loops=True)
        visits = sum(bool(one.inside) for one in passes)
        itemsize = _widest(nodes, buffers, removed)
        blocks = reduction_blocks(numel, rnumel, unit_steps(kernel), visits, itemsize)
        return KernelDomain(blocks, numel, rnumel=rnumel)
    tile = _find_tile(nodes)
    if tile is not None:
        rows, columns = product(kernel.ranges[:tile]), product(kernel.ranges[tile:])
        if isinstance(rows, int) and isinstance(columns, int):
            return KernelDomain(tile_blocks(rows, columns), rows, columns, tile_dims=tile)
    return KernelDomain(pointwise_blocks(numel), numel)


def _widest(
    nodes: Sequence[SchedulerNode], buffers: Mapping[str, Buffer], removed: frozenset[str]
) -> int:
    """Return the bytes of the widest element that the kernel moves in every step."""
    own = {node.name for node in nodes}
    inside = [node for node in nodes if node.covers_reduction]
    names = {a.name for node in inside for a in node.reads_of if a.name not in own and _is_full(a)}
    names |= {n.name for n in inside if n.name not in removed and not n.is_reduction}
    return max((buffers[name].dtype.itemsize for name in names if name), default=4)


def _is_full(access: Access) -> bool:
    return 0 not in access.strides


def _find_tile(nodes: Sequence[SchedulerNode]) -> int | None:
    """Return the number of loops before the columns of a tile, if the kernel needs tiles.

    It does if some access walks memory along an outer loop while another one walks it along the
    innermost loop.
    """
    sizes = nodes[0].ranges
    accesses = [a for node in nodes for a in (*node.reads_of, *node.writes_of) if a.name]
    if not all(node.ranges == sizes for node in nodes) or len(sizes) < 2:
        return None
    if not any(access.strides[-1] == 1 for access in accesses):
        return None
    for access in accesses:
        across = access.strides[-1] not in (0, 1)
        for loop, stride in enumerate(access.strides[:-1]):
            if across and stride == 1 and _is_wide(sizes[loop]) and _is_wide(sizes[-1]):
                return loop + 1
    return None


def _is_wide(size: Expr) -> bool:
    return isinstance(size, int) and size >= SMALLEST_TILE
