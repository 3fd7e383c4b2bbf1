"""Merge chains of views in functional aten graphs.

Laws::

    view(view(x, a), b)          -->   view(x, b)
    expand(expand(x, a), b)      -->   expand(x, b)
    permute(permute(x, p), q)    -->   permute(x, [p[i] for i in q])
    view, expand or permute that changes neither size nor stride of x    -->   x

A rewrite is made only if the merged view has the size and stride of the chain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from minitorch2.graph.fake_tensor import FakeTensor, run_fake
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Argument, Node
from minitorch2.graph.rewriting import Rewrite, graph_pass
from minitorch2.graph.symbols import expr_of

aten = torch.ops.aten
_VIEWS = (aten.view.default, aten.expand.default, aten.permute.default)


@graph_pass
def simplify_views(module: GraphModule) -> Iterator[Rewrite]:
    """Apply the laws above until no law applies. Needs ``meta["val"]``.

    >>> from minitorch2.graph.fake_tensor import to_fake
    >>> from minitorch2.graph.graph import Graph
    >>> graph = Graph()
    >>> x = graph.placeholder("x")
    >>> x.meta["val"] = to_fake(torch.empty(2, 3))
    >>> turned = graph.call_function(aten.permute.default, (x, [1, 0]))
    >>> turned.meta["val"] = to_fake(torch.empty(2, 3).t())
    >>> back = graph.call_function(aten.permute.default, (turned, [1, 0]))
    >>> back.meta["val"] = to_fake(torch.empty(2, 3))
    >>> _ = graph.output((graph.call_function(aten.sin.default, (back,)),))
    >>> simplify_views(GraphModule(graph)), [node.name for node in graph.nodes]
    (True, ['x', 'sin', 'output'])
    """
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target in _VIEWS:
            merged = _merged_with_input(node)
            if merged is not None:
                inner = node.args[0]
                yield Rewrite(f"one view with {inner.name}", node)
                node.update_args(*merged)
                _erase_unread(inner)
            if node.users and same_geometry(node.args[0].meta["val"], node.meta["val"]):
                yield Rewrite("the view changes nothing", node)
                node.replace_all_uses_with(node.args[0])
                _erase_unread(node)


def _erase_unread(view: Node) -> None:
    """Erase a view that lost its last reader, and the views that only it read."""
    while not view.users and view.op == "call_function" and view.target in _VIEWS:
        base: Node = view.args[0]
        view.graph.erase(view)
        view = base


def _merged_with_input(node: Node) -> tuple[tuple[Argument, ...], dict[str, Argument]] | None:
    """Return the arguments of the one view that equals the node's view of its input's view."""
    inner = node.args[0]
    if not isinstance(inner, Node) or inner.target is not node.target:
        return None
    base: Node = inner.args[0]
    argument = _merged_argument(node, inner)
    value = node.meta["val"]
    sizes = argument if node.target is aten.permute.default else list(value.shape)
    try:
        merged = run_fake(node.target, (base.meta["val"], sizes), {})  # type: ignore[arg-type]
    except RuntimeError:  # the base's strides do not allow it in one step
        return None
    return ((base, argument), {}) if same_geometry(merged, value) else None


def _merged_argument(node: Node, inner: Node) -> Any:
    if node.target is not aten.permute.default:
        return node.args[1]
    rank = len(inner.args[1])
    return [inner.args[1][i % rank] % rank for i in node.args[1]]


def same_geometry(a: FakeTensor, b: FakeTensor) -> bool:
    """Return whether two values have the same size, stride and dtype."""

    def geometry(value: FakeTensor) -> list[Any]:
        return [expr_of(n) for n in (*value.shape, *value.stride(), value.dtype)]

    return geometry(a) == geometry(b)
