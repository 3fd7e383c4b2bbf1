"""Graphs as tables, one row a node: the ``print_tabular`` of the PyTorch 2 slides."""

from __future__ import annotations

from collections.abc import Iterable

from minitorch2.graph.names import qualified_name
from minitorch2.graph.node import Node


def format_tabular(nodes: Iterable[Node]) -> str:
    """Return the nodes as a table with the columns opcode, name, target, args (and kwargs)."""
    rows = [
        [node.op, node.name, target_name(node), str(node.args)]
        + ([str(dict(node.kwargs))] if node.kwargs else [])
        for node in nodes
    ]
    return _align([["opcode", "name", "target", "args"], *rows])


def target_name(node: Node) -> str:
    """Return the node's target as text."""
    if isinstance(node.target, str):
        return node.target
    return qualified_name(node.target) or str(getattr(node.target, "__name__", node.target))


def _align(rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = [
        "  ".join([cell.ljust(w) for cell, w in zip(row, widths, strict=False)] + row[3:]).rstrip()
        for row in rows
    ]
    rule = "-" * max(len(line) for line in lines)
    return "\n".join([lines[0], rule, *lines[1:]])
