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
from minitorch2.graph.symbols.expression import (
    SYMBOL_NAME,
    SYMBOLIC,
    expr_of,
    free_symbols,
    is_unbacked,
)


def bind_symbols(graph: Graph, node: Node, wanted: Iterable[sympy.Symbol]) -> Iterator[Node]:
    """Make and yield a node for each of these symbols that the value of ``node`` determines."""
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
    """Give a node the name of a symbol; no other node has this kind of name."""
    node.name = name


def is_symbol_node(node: Node) -> bool:
    """Return whether a node computes the value of an unbacked symbol."""
    return node.op.startswith("call") and SYMBOL_NAME.fullmatch(node.name) is not None


def makes_symbols(node: Node) -> bool:
    """Return whether a node computes an unbacked symbol, or the value that it is read from."""
    return is_symbol_node(node) or any(map(is_symbol_node, node.users))


class Liveness:
    """The symbol nodes that kept nodes read, collected from a graph's last node to its first."""

    def __init__(self) -> None:
        self._read: set[str] = set()

    def note(self, *values: Any) -> None:
        """Note the symbols in the arguments of a kept node, or in an output."""
        self._read |= {str(symbol) for symbol in free_symbols(values) if is_unbacked(symbol)}

    def is_read(self, node: Node) -> bool:
        """Return whether a kept node reads the symbol that this node computes."""
        return node.name in self._read and is_symbol_node(node)
