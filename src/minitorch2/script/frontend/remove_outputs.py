"""Outputs of branches and loops that nothing needs: removed after the conversion to SSA form."""

from __future__ import annotations

from minitorch2.script.ir.graph import Block, Graph, Node
from minitorch2.script.passes.simplify_branches import common_value, outside

_FREE_OF_EFFECTS = frozenset(("prim::Constant", "prim::Uninitialized", "prim::unchecked_cast"))


def remove_outputs(graph: Graph) -> None:
    """Remove outputs that nothing reads, or that stand for one value of the surroundings.

    An output that is `prim::Uninitialized` on one side stands for the value of the other side.
    """
    while _simplify(graph.block):
        pass


def _simplify(block: Block) -> bool:
    changed = False
    for node in list(block.nodes)[::-1]:
        if node.kind == "prim::If":
            changed |= _simplify_outputs(node)
        for inner in node.blocks:
            changed |= _simplify(inner)
        if _is_idle(node):
            node.destroy()
            changed = True
    return changed


def _is_idle(node: Node) -> bool:
    """Return whether a node does nothing, and nothing reads it."""
    is_empty = node.kind == "prim::If" and not any(map(len, (b.nodes for b in node.blocks)))
    return (is_empty or node.kind in _FREE_OF_EFFECTS) and not any(v.uses for v in node.outputs)


def _simplify_outputs(node: Node) -> bool:
    changed = False
    for index in reversed(range(len(node.outputs))):
        output = node.outputs[index]
        if output.uses:
            value = common_value(node, index)
            if value is None or value.type != output.type:
                continue
            output.replace_all_uses_with(outside(value, node))
        for block in node.blocks:
            block.remove_output(index)
        node.remove_output(index)
        changed = True
    return changed
