"""Compute an expression once where it stands twice.

Nothing may write to what the expression reads or gives, and the caller must not get both results:
it could tell one tensor from two.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from minitorch2.script.analysis.alias_db import AliasDb
from minitorch2.script.analysis.effects import MODE_CHANGES, is_pure
from minitorch2.script.ir.graph import Block, Graph, Node, Value
from minitorch2.script.passes.constants import key_of
from minitorch2.script.passes.copying import replace_node
from minitorch2.script.passes.rewriting import Rewrite, script_pass

Known = dict[Hashable, Node]


@script_pass
def eliminate_common_subexpressions(graph: Graph) -> Iterator[Rewrite]:
    """Replace a node by an earlier one, in the same block or around it, that computes the same."""
    yield from _eliminate(graph.block, {}, AliasDb(graph))


def _eliminate(block: Block, known: Known, aliases: AliasDb) -> Iterator[Rewrite]:
    if changes_mode(block):
        known = {}
    for node in list(block.nodes):
        for inner in node.blocks:
            yield from _eliminate(inner, dict(known), aliases)
        if node.kind in MODE_CHANGES or any(map(changes_mode, node.blocks)):
            known.clear()
        if not is_pure(node) or not node.outputs:
            continue
        first = known.setdefault(expression(node), node)
        if first is not node and may_merge(first, node, aliases):
            yield Rewrite("computed before", node)
            replace_node(node, first.outputs)


def may_merge(first: Node, again: Node, aliases: AliasDb) -> bool:
    """Return whether the outputs of an equal, earlier node may stand for those of a node."""
    if any(aliases.has_writers(value) for value in again.inputs):
        return False
    return aliases.may_replace(first.outputs, again.outputs)


def changes_mode(block: Block) -> bool:
    """Return whether operators may mean another thing after a node of a block."""
    return any(node.kind in MODE_CHANGES for node in block.all_nodes())


def expression(node: Node) -> Hashable:
    """Return a key that is equal for nodes that compute the same of the same values."""
    attributes = tuple((name, key_of(value)) for name, value in sorted(node.attributes.items()))
    types = tuple(output.type for output in node.outputs)
    return node.kind, tuple(map(_operand, node.inputs)), attributes, types


def _operand(value: Value) -> Hashable:
    if value.node.kind == "prim::Constant":
        return value.type, key_of(value.node.attributes["value"])
    return value
