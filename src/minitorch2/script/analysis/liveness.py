"""The last readers of values, so that a runtime can let go of their memory."""

from __future__ import annotations

from minitorch2.script.ir.graph import Block, Graph, Node, Value


def last_uses(graph: Graph) -> dict[Node, tuple[Value, ...]]:
    """Return the values that nothing reads after each node.

    A value dies at the last node of its own block that reads it, or that contains a reader: a loop
    may come to an inner reader again. A value that nothing reads dies at the node that defines it;
    outputs of a block live to its end. Inputs that nothing reads are left out.
    """
    found: dict[Node, tuple[Value, ...]] = {}
    _block(graph.block, found)
    return found


def _block(block: Block, found: dict[Node, tuple[Value, ...]]) -> None:
    live = set(block.outputs)
    mine = {value for node in (block.parameters, *block.nodes) for value in node.outputs}
    for node in reversed(block.nodes):
        read = [value for value in _read_by(node) if value in mine]
        dying = dict.fromkeys(v for v in (*read, *node.outputs) if v not in live)
        found[node] = tuple(dying)
        live.update(dying)
        for inner in node.blocks:
            _block(inner, found)


def _read_by(node: Node) -> list[Value]:
    """Return what a node reads, and what is read inside of it."""
    read = list(node.inputs)
    for block in node.blocks:
        read += [value for inner in block.nodes for value in _read_by(inner)]
        read += block.outputs
    return read
