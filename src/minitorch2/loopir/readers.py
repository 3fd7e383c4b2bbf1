"""The readers of a value, and the number of their kernels: the cost of computing it in each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import torch

from minitorch2.graph.dtypes import holds_values_of
from minitorch2.graph.node import Node
from minitorch2.native.torch_internals.operators import OpOverload

_CONVERSIONS: Final = (
    torch.ops.aten._to_copy.default,
    torch.ops.prims.convert_element_type.default,
)
_COPIES: Final = (
    *_CONVERSIONS,
    torch.ops.aten.clone.default,
    torch.ops.aten.constant_pad_nd.default,
)


_REARRANGING: Final = frozenset({
    torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default,
    torch.ops.aten.permute.default, torch.ops.aten.unsqueeze.default,
    torch.ops.aten.squeeze.dim, torch.ops.aten.squeeze.dims, torch.ops.aten.squeeze.default,
    torch.ops.aten.expand.default,
})  # fmt: skip
"""Views of all elements."""
_REDUCTION: Final = getattr(torch.Tag, "reduction", None)


def all_is_read(node: Node) -> bool:
    """Return whether each reader reads each element of a value, as it must if one may raise."""
    return all(map(_reads_all, node.users))


def _reads_all(reader: Node) -> bool:
    if reader.op == "output" or not isinstance(reader.target, OpOverload):
        return True  # it reads memory
    if reader.target in _REARRANGING:
        return all_is_read(reader)
    tags = reader.target.tags
    is_simple = torch.Tag.pointwise in tags or _REDUCTION in tags
    return is_simple or reader.target in (*_CONVERSIONS, torch.ops.aten.clone.default)


def readers_of(node: Node) -> Iterator[Node]:
    """Yield the nodes that read a value.

    A conversion to a wider dtype does not count, but its readers do: the narrow value is stored.
    """
    return node.readers(_widens)


def _widens(node: Node) -> bool:
    """Return whether a node converts to a dtype of more bytes that has all values of the former."""
    source = node.args[0].meta.get("val") if node.target in _CONVERSIONS else None
    if not isinstance(source, torch.Tensor):
        return False
    dtype: torch.dtype = node.meta["val"].dtype
    return dtype.itemsize > source.dtype.itemsize and holds_values_of(dtype, source.dtype)


def kernels_that_read(node: Node, waits: Mapping[Node, int]) -> int:
    """Count at least the kernels that read a value: library calls and reductions separate them."""
    return len({waits[reader] for reader in _through_views(node)})


def _through_views(node: Node) -> Iterator[Node]:
    """Yield the nodes that read a value or a view of it."""
    for reader in readers_of(node):
        if isinstance(reader.target, OpOverload) and reader.target.is_view:
            yield from _through_views(reader)
        else:
            yield reader


def waits_of(nodes: Iterable[Node]) -> dict[Node, int]:
    """Count the library calls and reductions that come one after the other before each node."""
    waits: dict[Node, int] = {}
    for node in nodes:
        inputs = node.all_input_nodes
        waits[node] = max((waits[used] + _is_waited_for(used) for used in inputs), default=0)
    return waits


def _is_waited_for(node: Node) -> bool:
    """Return whether a value is complete only when a kernel has ended: it is not elementwise."""
    target = node.target
    if not isinstance(target, OpOverload) or target.is_view or not node.all_input_nodes:
        return False
    return torch.Tag.pointwise not in target.tags and target not in _COPIES
