"""Tensors during lowering, whose elements may not be computed yet.

    tensor  ::= TensorBox(StorageBox | View)
    storage ::= StorageBox(loops | buffer)             loops until realized, then a buffer
    view    ::= View(StorageBox | View, size, reindex)

`TensorBox` and `StorageBox` match `torch.Tensor` and `torch.Storage` (PyTorch 2 paper, section
4.3). A view is a function from its index to its base's index, so views vanish: reading through one
composes the functions and simplifies the result. No mutation: graphs are functional.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch

from minitorch2.graph.symbols.polynomials import multiply_out
from minitorch2.loopir.buffers import (
    Buffer,
    BufferView,
    ComputedBuffer,
    Origins,
    ReinterpretedBuffer,
    current_table,
)
from minitorch2.loopir.expressions import Expr, Ranges, index_symbols, simplify, to_expr
from minitorch2.loopir.layout import FixedLayout, FlexibleLayout, Size
from minitorch2.loopir.loops import Index, InnerFn, Loops, Pointwise
from minitorch2.loopir.ops import Value, ops

Reindex = Callable[[Index], Index]


class _Box:
    """A box around what has the elements."""

    data: Loops | Buffer | StorageBox | View

    @property
    def dtype(self) -> torch.dtype:
        """The dtype in memory."""
        return self.data.dtype

    @property
    def device(self) -> torch.device:
        """The device of the elements."""
        return self.data.device


class StorageBox(_Box):
    """The cell that holds loops first and, once realized, a buffer.

    `preferred_stride` is the stride of this tensor in eager PyTorch; `origins` are the graph nodes
    whose results the loops compute.
    """

    def __init__(self, data: Loops | Buffer) -> None:
        self.data: Loops | Buffer = data
        self.preferred_stride: Size | None = None
        self.origins: Origins = current_table().origins if not isinstance(data, Buffer) else ()

    @property
    def size(self) -> Size:
        """The size of the elements that are stored or computed."""
        return self.data.size if isinstance(self.data, Buffer) else self.data.ranges

    def is_realized(self) -> bool:
        """Return whether the elements have memory."""
        return isinstance(self.data, Buffer)

    def holds(self, buffer: Buffer) -> bool:
        """Return whether the elements are in that buffer."""
        data = self.data
        return buffer is (data.base if isinstance(data, ReinterpretedBuffer) else data)

    def realize(self, reason: str) -> Buffer:
        """Give the elements memory, if they have none: the loops become a `ComputedBuffer`."""
        if isinstance(self.data, Buffer):
            return self.data
        table, loops = current_table(), self.data
        layout = FlexibleLayout(loops.device, loops.dtype, loops.ranges, self.preferred_stride)
        self.data = ComputedBuffer(table.next_name(), layout, loops, origins=self.origins)
        table.add(self.data)
        table.decide(self.data.name, stored=True, reason=reason)
        return self.data

    def make_loader(self) -> InnerFn:
        """Return a function that gives the element at an index: the loop body itself, or a load."""
        if isinstance(self.data, Pointwise):
            return self.data.inner_fn
        buffer = self.realize("a reduction is complete only when its loop has ended")
        return lambda index: ops.load(buffer.name, buffer.fixed_layout().index(index))


class _OnStorage(_Box):
    """A box around a storage, or around a view of one."""

    data: StorageBox | View

    @property
    def storage(self) -> StorageBox:
        """The storage under all views."""
        return self.data if isinstance(self.data, StorageBox) else self.data.storage


@dataclass(frozen=True, eq=False)
class View(_OnStorage):
    """Other coordinates for the elements of `data`: element `i` is `data[reindex(i)]`."""

    data: StorageBox | View
    size: Size
    reindex: Reindex

    def make_loader(self) -> InnerFn:
        """Return a function that gives the element at an index of the view."""
        load, reindex = self.data.make_loader(), self.reindex
        return lambda index: load(reindex(index))

    def to_storage_index(self, index: Index) -> Index:
        """Return the index into the storage's own coordinates."""
        inner = self.reindex(index)
        return inner if isinstance(self.data, StorageBox) else self.data.to_storage_index(inner)


@dataclass(frozen=True, eq=False)
class TensorBox(_OnStorage):
    """A tensor during lowering: size, dtype, device, and a way to its elements."""

    data: StorageBox | View

    @classmethod
    def create(cls, data: Loops | Buffer) -> TensorBox:
        """Make a tensor that owns its storage. A reduction gets memory as soon as it is read."""
        return cls(StorageBox(data))

    @classmethod
    def computed(cls, loops: Loops, layout: FixedLayout) -> TensorBox:
        """Make a tensor whose loops fill memory part by part, so that no reader repeats them."""
        table = current_table()
        buffer = ComputedBuffer(table.next_name(), layout, loops, origins=table.origins)
        table.add(buffer)
        return cls.create(buffer)

    @cached_property
    def size(self) -> Size:
        """The logical size."""
        return self.data.size

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.size)

    def make_loader(self) -> Callable[[Index], Value]:
        """Return a function that gives the element at an index, in the compute dtype."""
        return self.data.make_loader()

    def view(self, size: Size, reindex: Reindex) -> TensorBox:
        """Return the same elements in other coordinates; nothing is computed or copied."""
        return TensorBox(View(self.data, size, reindex))

    def realize(self, reason: str) -> BufferView:
        """Return this tensor as a strided window on memory, for a reader that needs an address.

        Elements without memory are computed; a view that no strides can express is copied.
        """
        self.storage.realize(reason)
        layout = self.strided_layout()
        if layout is None:
            return self.copy().realize(f"{reason}, and no strides express the view")
        buffer = self.storage.realize(reason)
        return BufferView(
            buffer.base if isinstance(buffer, ReinterpretedBuffer) else buffer, layout
        )

    def copy(self) -> TensorBox:
        """Copy the elements to a new tensor, row-major unless a reader wants another layout."""
        loops = Pointwise(self.device, self.dtype, self.size, self.make_loader())
        return TensorBox.create(loops)

    def strided_layout(self) -> FixedLayout | None:
        """Size, strides and offset of this view in its buffer, or None if there are none.

        The view's index is a sum of `stride * variable` exactly when it is linear.
        """
        buffer = self.storage.data
        if not isinstance(buffer, Buffer):
            return None
        layout = buffer.fixed_layout()
        if isinstance(self.data, StorageBox):
            return layout
        symbols = index_symbols("v", self.ndim)
        ranges = tuple(zip(symbols, self.size, strict=True))
        position = simplify(layout.index(self.data.to_storage_index(symbols)), ranges)
        linear = linear_form(position, ranges)
        if linear is None:
            return None
        return FixedLayout(layout.device, layout.dtype, self.size, *linear)


def linear_form(position: Expr, ranges: Ranges) -> tuple[Size, Expr] | None:
    """`(strides, offset)` such that `position = offset + sum(stride * variable)`, if linear."""
    if isinstance(position, int):
        return tuple(0 for _ in ranges), position
    strides: list[Expr] = []
    offset = multiply_out(position)
    variables = {symbol for symbol, _ in ranges}
    for symbol, _ in ranges:
        stride = offset.coeff(symbol, 1)
        if stride.free_symbols & variables:
            return None
        strides.append(to_expr(stride))
        offset = multiply_out(offset - stride * symbol)
    return None if offset.free_symbols & variables else (tuple(strides), to_expr(offset))
