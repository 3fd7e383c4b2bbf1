"""Remove concatenations of the parts of one tensor, and slices of a concatenation.

Laws, for parts along one dimension::

    cat([x])                                  -->  x
    cat([a, cat([b, c]), d])                  -->  cat([a, b, c, d])
    cat([x[:i], x[i:j], x[j:]])               -->  x
    cat([a, b])[i:j], all of it inside b      -->  b[i - n : j - n]            n = len(a)

The pass is for functional graphs of aten operators, in which a split is a number of slices. If the
sizes along the dimension are symbols, only the first two laws apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import torch

from minitorch2.graph.effects import is_view, may_be_returned
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node
from minitorch2.graph.passes.simplify_views import same_geometry
from minitorch2.graph.rewriting import Rewrite, graph_pass

aten = torch.ops.aten


@graph_pass
def merge_concatenations(module: GraphModule) -> Iterator[Rewrite]:
    """Apply the laws above along the graph. Needs ``meta["val"]``."""
    for node in module.graph.nodes:
        if node.target is aten.cat.default:
            yield from _flatten(node)
            yield from _skip(node)
        elif node.target is aten.slice.Tensor:
            yield from _take_from_part(node)


def _flatten(node: Node) -> Iterator[Rewrite]:
    dim = _dim_of(node)
    inner = [
        part
        for part in dict.fromkeys(node.args[0])
        if part.target is aten.cat.default and _dim_of(part) == dim and len(part.users) == 1
        if part.meta["val"].dtype == node.meta["val"].dtype
    ]
    if inner:
        yield Rewrite("cat([a, cat([b, c])]) --> cat([a, b, c])", node)
        parts = [part.args[0] if part in inner else [part] for part in node.args[0]]
        node.update_args((list(chain(*parts)), *node.args[1:]), node.kwargs)
        _erase_unread(inner)


def _skip(node: Node) -> Iterator[Rewrite]:
    """Remove a concatenation whose result exists already as one tensor."""
    parts = node.args[0]
    whole = parts[0] if len(parts) == 1 else _whole([_slice_of(p) for p in parts], _dim_of(node))
    if whole is None or may_be_returned(node):
        return
    if same_geometry(whole.meta["val"], node.meta["val"]):
        yield Rewrite("cat of all parts of x --> x", node)
        node.replace_all_uses_with(whole)
        _erase_unread([node, *parts])


def _take_from_part(node: Node) -> Iterator[Rewrite]:
    taken = _slice_of(node)
    if taken is None or taken.of.target is not aten.cat.default or taken.dim != _dim_of(taken.of):
        return
    # A part has other strides than its place in the concatenation: only views would notice.
    if may_be_returned(node) or any(is_view(user) for user in node.users):
        return
    start = 0
    for part in taken.of.args[0]:
        value = part.meta["val"]
        end = start + value.shape[taken.dim]
        if start <= taken.start < taken.end <= end and value.dtype == node.meta["val"].dtype:
            yield Rewrite("a slice of cat([..., b, ...]) --> a slice of b", node)
            _read_part(node, part, taken.dim, taken.start - start, taken.end - start)
            _erase_unread([taken.of])
            return
        start = end


def _read_part(node: Node, part: Node, dim: int, start: int, end: int) -> None:
    """Let the readers of ``node`` read ``part[start:end]``."""
    value = part.meta["val"]
    if (start, end) == (0, value.shape[dim]):
        node.replace_all_uses_with(part)
        node.graph.erase(node)
    else:
        node.update_args((part, dim, start, end), {})
        node.meta["val"] = value.narrow(dim, start, end - start)


@dataclass(frozen=True)
class _Slice:
    """``of[start:end]`` along ``dim``, all numbers."""

    of: Node
    dim: int
    start: int
    end: int


_DEFAULTS: Final[tuple[Any, ...]] = (0, None, None, 1)
"""Of the arguments of a slice behind its tensor."""


def _slice_of(node: Node) -> _Slice | None:
    if node.target is not aten.slice.Tensor or node.kwargs:
        return None
    of: Node = node.args[0]
    given = list(node.args[1:])
    dim, start, end, step = given + list(_DEFAULTS[len(given) :])
    value = of.meta["val"]
    length = value.shape[dim]
    if step != 1 or not all(type(n) in (int, type(None)) for n in (length, start, end)):
        return None
    first, last, _ = slice(start, end).indices(length)
    return _Slice(of, dim % value.dim(), first, last) if first < last else None


def _whole(slices: Sequence[_Slice | None], dim: int) -> Node | None:
    """Return the tensor whose parts along ``dim`` these are, all of them and in order."""
    end = 0
    for part in slices:
        if part is None or (part.dim, part.start) != (dim, end):
            return None
        end = part.end
    owners = {part.of for part in slices if part is not None}
    owner = owners.pop()
    return owner if not owners and owner.meta["val"].shape[dim] == end else None


def _dim_of(concatenation: Node) -> int:
    given: int = concatenation.args[1] if len(concatenation.args) > 1 else 0
    return given % int(concatenation.meta["val"].dim())


def _erase_unread(nodes: Iterable[Node]) -> None:
    for node in nodes:
        if not node.users and node.op == "call_function":
            node.graph.erase(node)
