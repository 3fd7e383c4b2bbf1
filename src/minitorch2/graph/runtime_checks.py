"""Conditions on unbacked sizes: stated while compiling, checked when the graph runs.

    check(u0 <= s0, "more rows than there are")

A check is a node of its own, behind those that give the symbols and in front of those that rely on
the condition.
"""

from __future__ import annotations

import builtins

from minitorch2.graph.graph import Graph
from minitorch2.graph.node import Node
from minitorch2.graph.symbols.conditions import is_condition
from minitorch2.graph.symbols.shape_env import RuntimeCheck


class SuppositionError(RuntimeError):
    """The graph assumes something of a size that is not so: it does not serve this data."""


def check(condition: object, message: str, error: str = "RuntimeError") -> None:
    """Raise an exception, one of Python's own classes or the one above, unless a condition holds.

    >>> check(3 <= 4, "too many")
    """
    if not condition:
        raise getattr(builtins, error, SuppositionError)(message)


def add_check(graph: Graph, stated: RuntimeCheck) -> Node:
    """Add the node that checks a stated condition."""
    node = graph.call_function(check, (stated.condition, stated.message, stated.error))
    node.meta.update(val=None, source=stated.line, impure=True)
    return node


def is_check(node: Node) -> bool:
    """Return whether a node is a check of a condition on sizes."""
    return node.target is check and is_condition(node.args[0])
