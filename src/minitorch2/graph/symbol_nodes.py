"""Nodes that are the values of symbols: of a symbol ``u0``, the node called u0.

    nonzero = torch.nonzero(x)                   # i64[u0, 2]
    u0 = torch.ops.aten.sym_size.int(nonzero, 0)
    u1 = n.item()
    zeros = torch.zeros([u0 + u1])               # an expression reads symbols, not nodes

A symbol of an input's size is bound by the placeholder that has the size. A symbol that only data
will tell is bound by its node, which lives as long as an expression reads the symbol.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import sympy
import torch

from minitorch2.graph.graph import Graph
from minitorch2.graph.node import Node
from minitorch2.graph.symbols.expression import SYMBOL_NAME, SYMBOLIC, expr_of, free_symbols
from minitorch2.graph.symbols.unbacked import is_unbacked


def bind_symbols(graph: Graph, node: Node, wanted: Iterable[sympy.Symbol]) -> Iterator[Node]:
    """Make a node for each of these symbols that the value of ``node`` tells; yield those nodes."""
    value, names = node.meta["val"], {str(symbol) for symbol in wanted}
    if isinstance(value, SYMBOLIC):
        symbols = free_symbols(value)
        if len(symbols) == 1 and not names.isdisjoint(map(str, symbols)):
            rename(node, str(*symbols))
            yield node
    elif isinstance(value, torch.Tensor):
        for dim, size in enumerate(value.shape):
            if str(expr_of(size)) in names:
                names.discard(str(expr_of(size)))
                yield _size_node(graph, node, dim, size)


def _size_node(graph: Graph, node: Node, dim: int, size: Any) -> Node:
    made = graph.call_function(torch.ops.aten.sym_size.int, (node, dim))
    made.meta.update(val=size, source=node.meta.get("source"))
    rename(made, str(expr_of(size)))
    return made


def rename(node: Node, name: str) -> None:
    """Call a node as a symbol; no other node has such a name."""
    node.name = name


def is_symbol_node(node: Node) -> bool:
    """Whether a node is the value of a symbol that only data will tell."""
    return node.op.startswith("call") and SYMBOL_NAME.fullmatch(node.name) is not None


def makes_symbols(node: Node) -> bool:
    """Whether a node is the one that the value of a symbol is read from."""
    return is_symbol_node(node) or any(map(is_symbol_node, node.users))


class Liveness:
    """Which symbol nodes are read, found by looking at the nodes of a graph from last to first."""

    def __init__(self) -> None:
        self._read: set[str] = set()

    def note(self, *values: Any) -> None:
        """An argument of a node that is kept, or an output."""
        self._read |= {str(symbol) for symbol in free_symbols(values) if is_unbacked(symbol)}

    def is_read(self, node: Node) -> bool:
        """Whether a node that is kept reads the symbol that this node is the value of."""
        return node.name in self._read and is_symbol_node(node)
