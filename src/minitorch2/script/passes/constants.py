"""Constants of a graph: what their values are, when two are one, and new ones."""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from typing import Any

import torch

from minitorch2.script.analysis.alias_db import AliasDb
from minitorch2.script.ir.graph import NOT_CONSTANT, Graph, Node, Value


def constant_of(value: Value, aliases: AliasDb) -> Any:
    """Return the Python value of a constant, or of a list or tuple of constants.

    Returns NOT_CONSTANT for anything else. A list that anyone may write to is none.
    """
    node = value.node
    if node.kind == "prim::Constant":
        return node.attributes["value"]
    if node.kind not in ("prim::ListConstruct", "prim::TupleConstruct"):
        return NOT_CONSTANT
    if node.kind == "prim::ListConstruct" and aliases.has_writers(value):
        return NOT_CONSTANT
    items = [constant_of(item, aliases) for item in node.inputs]
    if any(item is NOT_CONSTANT for item in items):
        return NOT_CONSTANT
    return items if node.kind == "prim::ListConstruct" else tuple(items)


def key_of(value: Any) -> Hashable:
    """Return a key that is equal only for constants that nothing can tell apart.

    ``1``, ``1.0`` and ``True`` differ, and so do ``0.0`` and ``-0.0``; tensors are their identity.
    """
    if isinstance(value, float | complex):
        return type(value), repr(value)
    if isinstance(value, list | tuple):
        return type(value), tuple(map(key_of, value))
    if value is None or isinstance(value, int | str | torch.dtype | torch.device):
        return type(value), value
    return type(value), id(value)


def is_immutable(value: Any) -> bool:
    """Return whether a Python value can be a constant without anyone being able to change it."""
    if isinstance(value, tuple):
        return all(map(is_immutable, value))
    if isinstance(value, int) and not isinstance(value, Enum):
        return -(2**63) <= value < 2**63
    kinds = float | complex | str | torch.dtype | torch.device | torch.layout | torch.memory_format
    return value is None or isinstance(value, Enum | kinds)


def constant_before(node: Node, value: Any, like: Value) -> Value:
    """Insert a constant before a node, with the type and the name of another value."""
    graph: Graph = node.graph
    with graph.inserting_before(node):
        constant = graph.constant(value, type=like.type, range=node.range)
    constant.name = like.name
    return constant
