"""Compute equal things once.

Law::

    x = f(a); ...; y = f(a)        -->        x = f(a); ...; y = x

``f`` must be deterministic and free of effects. A graph that mutates anything is left alone where
the value could be written between the two, or where two fresh results would become one memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from minitorch2.graph.effects import is_deterministic, is_mutating, may_be_returned
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node
from minitorch2.graph.rewriting import Rewrite, graph_pass
from minitorch2.graph.symbol_nodes import makes_symbols
from minitorch2.graph.symbols.expression import argument_key


@graph_pass
def eliminate_common_subexpressions(module: GraphModule) -> Iterator[Rewrite]:
    """Merge equal pure nodes. A graph that writes to a tensor stays as it is.

    If both results are returned, they are not merged: the caller gets separate memory.

    >>> import torch
    >>> from minitorch2.graph.graph import Graph
    >>> graph = Graph()
    >>> x = graph.placeholder("x")
    >>> a, b = (graph.call_function(torch.sin, (x,)) for _ in range(2))
    >>> _ = graph.output((graph.call_function(torch.add, (a, b)),))
    >>> eliminate_common_subexpressions(GraphModule(graph)), [node.name for node in graph.nodes]
    (True, ['x', 'sin', 'add', 'output'])
    """
    graph = module.graph
    if any(is_mutating(node) for node in graph.nodes):
        return
    seen: dict[Any, Node] = {}
    for node in graph.nodes:
        key = _key(node) if _is_candidate(node) else None
        first = seen.setdefault(key, node) if key is not None else node
        if first is not node and not (may_be_returned(first) and may_be_returned(node)):
            yield Rewrite(f"computed before as {first.name}", node)
            node.replace_all_uses_with(first)
            graph.erase(node)


def _is_candidate(node: Node) -> bool:
    is_call = node.op in ("call_function", "call_method")
    return is_call and is_deterministic(node) and not makes_symbols(node)


def _key(node: Node) -> Any:
    """Return a key, equal for equal computations; None where an argument cannot be hashed."""
    key = (node.op, node.target, argument_key((node.args, dict(node.kwargs))))
    try:
        hash(key)
    except TypeError:
        return None
    return key
