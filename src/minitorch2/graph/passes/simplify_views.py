"""Merge chains of views in functional aten graphs.

Laws::

    view(view(x, a), b)          -->   view(x, b)
    expand(expand(x, a), b)      -->   expand(x, b)
    permute(permute(x, p), q)    -->   permute(x, [p[i] for i in q])
    view, expand or permute that changes neither size nor stride of x    -->   x

A rewrite is made only if the merged view has the size and stride of the chain.
"""

from __future__ import annotations

from typing import Any

import torch

from minitorch2.graph.fake_tensor import FakeTensor, run_fake
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node
from minitorch2.graph.symbols import expr_of

aten = torch.ops.aten
_VIEWS = (aten.view.default, aten.expand.default, aten.permute.default)


def simplify_views(module: GraphModule) -> bool:
    """Apply the laws above until none applies; return whether any did. Needs ``meta["val"]``.

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
    changed = False
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target in _VIEWS:
            changed |= _merge_with_input(node)
            changed |= _skip_identity(node)
    for node in reversed(module.graph.nodes):
        if node.op == "call_function" and node.target in _VIEWS and not node.users:
            module.graph.erase(node)
    if changed:
        module.recompile()
    return changed


def _merge_with_input(node: Node) -> bool:
    inner = node.args[0]
    if not isinstance(inner, Node) or inner.target is not node.target:
        return False
    base: Node = inner.args[0]
    argument = _merged_argument(node, inner)
    value = node.meta["val"]
    sizes = argument if node.target is aten.permute.default else list(value.shape)
    try:
        merged = run_fake(node.target, (base.meta["val"], sizes), {})  # type: ignore[arg-type]
    except RuntimeError:  # the base's strides do not allow it in one step
        return False
    if not _same_geometry(merged, value):
        return False
    node.update_args((base, argument), {})
    return True


def _merged_argument(node: Node, inner: Node) -> Any:
    if node.target is not aten.permute.default:
        return node.args[1]
    rank = len(inner.args[1])
    return [inner.args[1][i % rank] % rank for i in node.args[1]]


def _skip_identity(node: Node) -> bool:
    base = node.args[0]
    if not node.users or not _same_geometry(base.meta["val"], node.meta["val"]):
        return False
    node.replace_all_uses_with(base)
    return True


def _same_geometry(a: FakeTensor, b: FakeTensor) -> bool:
    def geometry(value: FakeTensor) -> list[Any]:
        return [expr_of(n) for n in (*value.shape, *value.stride(), value.dtype)]

    return geometry(a) == geometry(b)
