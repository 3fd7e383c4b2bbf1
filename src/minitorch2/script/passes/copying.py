"""Copies of nodes and blocks into the graph that they come from, with some values replaced."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from minitorch2.script.ir.graph import Block, Node, Value


class Replacements(dict[Value, Value]):
    """A map of values to what stands for them in a copy; other values stand for themselves."""

    def __missing__(self, value: Value) -> Value:
        return value


def copies_before(nodes: Iterable[Node], before: Node, values: dict[Value, Value]) -> list[Node]:
    """Insert copies of nodes before a node, and return them.

    Args:
        values: what stands for values that the nodes read; the copies' outputs are added.
    """
    graph = before.graph
    return [graph.copy_node(node, values).insert_before(before) for node in list(nodes)]


def inline_block(block: Block, before: Node, values: Replacements) -> list[Value]:
    """Insert copies of the nodes of a block before a node; return what its outputs are there."""
    copies_before(block.nodes, before, values)
    return [values[value] for value in block.outputs]


def replace_node(node: Node, values: Sequence[Value]) -> None:
    """Let other values take the place of the outputs of a node, and destroy the node."""
    for output, value in zip(node.outputs, values, strict=True):
        output.replace_all_uses_with(value)
    node.destroy()


def block_of(node: Node) -> Block:
    """Return the block that a node stands in."""
    assert node.block is not None, f"{node.kind} stands in no block"
    return node.block
