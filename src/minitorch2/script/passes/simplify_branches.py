"""Take branches whose condition is known, and outputs that no branch or loop changes.

An output that is `prim::Uninitialized` in one branch is what the other branch gives, if that is
known outside: the program never reads it in the first case.
"""

from __future__ import annotations

from collections.abc import Iterator

from minitorch2.script.ir.graph import NOT_CONSTANT, Block, Graph, Node, Value
from minitorch2.script.passes.constants import constant_before, key_of
from minitorch2.script.passes.copying import Replacements, block_of, inline_block, replace_node
from minitorch2.script.passes.rewriting import Rewrite, script_pass


@script_pass
def simplify_branches(graph: Graph) -> Iterator[Rewrite]:
    """Simplify the branches of a graph, inner ones first; remove loops that never run."""
    yield from _simplify(graph.block)


def _simplify(block: Block) -> Iterator[Rewrite]:
    for node in list(block.nodes):
        for inner in node.blocks:
            yield from _simplify(inner)
        if node.kind == "prim::If":
            yield from _simplify_if(node)
        elif node.kind == "prim::Loop" and _never_runs(node):
            yield Rewrite("the loop never runs", node)
            replace_node(node, node.inputs[2:])
        elif node.kind == "prim::Loop":
            yield from _read_unchanged(node)


def _read_unchanged(loop: Node) -> Iterator[Rewrite]:
    """Let readers of what a loop carries unchanged read the value before the loop."""
    body = loop.blocks[0]
    carried = zip(loop.inputs[2:], body.inputs[1:], body.outputs[1:], loop.outputs, strict=True)
    for first, inside, again, last in list(carried):
        if again is inside and (last.uses or len(inside.uses) > 1):
            yield Rewrite("the loop carries it unchanged", loop)
            last.replace_all_uses_with(first)
            inside.replace_all_uses_with(first)


def _simplify_if(node: Node) -> Iterator[Rewrite]:
    condition = node.constant(0)
    if condition is not NOT_CONSTANT:
        yield Rewrite(f"the condition is always {condition}", node)
        taken = node.blocks[0 if condition else 1]
        replace_node(node, inline_block(taken, node, Replacements()))
        return
    for output in node.outputs:
        common = common_value(node, output.index)
        if common is not None and output.uses:
            yield Rewrite("both branches give the same", node)
            output.replace_all_uses_with(outside(common, node))


def _never_runs(loop: Node) -> bool:
    trips, condition = loop.constant(0), loop.constant(1)
    return condition is False or (isinstance(trips, int) and trips <= 0)


def common_value(node: Node, index: int) -> Value | None:
    """Return the value that an output is in both branches; None where it depends on which.

    An output that is True in the first branch and False in the other is the condition.
    """
    then, otherwise = (block.outputs[index] for block in node.blocks)
    if then.node.kind == "prim::Uninitialized":
        then = otherwise
    if otherwise.node.kind == "prim::Uninitialized":
        otherwise = then
    a, b = then.constant(), otherwise.constant()
    if a is True and b is False:
        return node.inputs[0]
    if a is not NOT_CONSTANT and b is not NOT_CONSTANT and key_of(a) == key_of(b):
        return then if then.type == otherwise.type else None
    return then if then is otherwise and is_visible(then, node) else None


def outside(value: Value, node: Node) -> Value:
    """Return a value as it is known before a node; a constant in one of its blocks is copied."""
    if is_visible(value, node):
        return value
    return constant_before(node, value.node.attributes["value"], value)


def is_visible(value: Value, node: Node) -> bool:
    """Return whether a value is defined before a node, in its block or around it."""
    home = block_of(value.node)
    return home not in node.blocks and not any(
        home is inner for block in node.blocks for inner in _inner_blocks(block)
    )


def _inner_blocks(block: Block) -> Iterator[Block]:
    for node in block.nodes:
        for inner in node.blocks:
            yield inner
            yield from _inner_blocks(inner)
