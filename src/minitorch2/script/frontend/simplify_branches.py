"""Outputs of branches and loops that nothing needs: removed after the conversion to SSA form."""

from __future__ import annotations

from minitorch2.script.ir.graph import Block, Graph, Node, Value

_FREE_OF_EFFECTS = frozenset(("prim::Constant", "prim::Uninitialized", "prim::unchecked_cast"))


def simplify_branches(graph: Graph) -> None:
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
        if node.kind in _FREE_OF_EFFECTS and not any(value.uses for value in node.outputs):
            node.destroy()
            changed = True
    return changed


def _simplify_outputs(node: Node) -> bool:
    changed = False
    for index in reversed(range(len(node.outputs))):
        output = node.outputs[index]
        if output.uses:
            value = _one_value(node, index)
            if value is None:
                continue
            output.replace_all_uses_with(value)
        for block in node.blocks:
            block.remove_output(index)
        node.remove_output(index)
        changed = True
    return changed


def _one_value(node: Node, index: int) -> Value | None:
    """Return the value from outside of a node that an output of it always is, if there is one."""
    given = {block.outputs[index] for block in node.blocks}
    known = {value for value in given if value.node.kind != "prim::Uninitialized"}
    if len(known) != 1:
        return None
    (value,) = known
    inside = any(owner is node for owner in value.node.owners())
    return None if inside or value.type != node.outputs[index].type else value
