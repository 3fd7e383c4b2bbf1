"""Replace operators that write in place by pure ones, where nobody can tell.

A tensor must be made in the block, without any other view or container of it, and the pure
operator must give the same dtype and sizes. A list must not be read before it is appended to
(TorchScript overview, "Writing optimization passes with AliasDb").
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from minitorch2.script.analysis.alias_db import AliasDb
from minitorch2.script.analysis.effects import tags_of, written_inputs
from minitorch2.script.ir.graph import Graph, Node, Value
from minitorch2.script.ir.types import TensorType
from minitorch2.script.passes.copying import replace_node
from minitorch2.script.passes.rewriting import Rewrite, script_pass
from minitorch2.script.passes.shapes import infer_types


@script_pass
def remove_mutation(graph: Graph) -> Iterator[Rewrite]:
    """Make writes to fresh tensors and appends to fresh lists pure."""
    for node in list(graph.nodes()):
        if node.kind == "aten::append" and _is_first_use(node):
            yield Rewrite("the list can be made with the item", node)
            _append_at_once(node)
        elif node.kind.endswith("_") and len(written_inputs(node)) == 1:
            aliases = AliasDb(graph)
            pure = _pure(node, aliases) if _is_private(node, aliases) else None
            if pure is not None:
                yield Rewrite("nobody else sees the tensor", node)
                _replace(node, pure)


def _is_first_use(append: Node) -> bool:
    """Return whether a list is made in the block of an append, which is the first to read it."""
    items = append.inputs[0]
    if items.node.kind != "prim::ListConstruct" or items.node.block is not append.block:
        return False
    return not any(use.user.is_before(append) for use in items.uses if use.user is not append)


def _append_at_once(append: Node) -> None:
    items, item = append.inputs
    kinds = [items.type]
    both = append.graph.create(
        "prim::ListConstruct", [*items.node.inputs, item], kinds, range=append.range
    )
    both.insert_before(append).output.name = items.name
    replace_node(append, both.outputs if append.outputs else [])
    items.replace_all_uses_with(both.output)
    items.node.destroy()


def _is_private(node: Node, aliases: AliasDb) -> bool:
    """Return whether a written tensor is made in the block, and seen only through writes to it."""
    value = node.inputs[0]
    if written_inputs(node) != (value,) or aliases.is_known_outside(value):
        return False
    shared = aliases.shared_with(value)
    return all(v.node.block is node.block and _is_made_or_written(v, shared) for v in shared)


def _is_made_or_written(value: Value, shared: set[Value]) -> bool:
    node = value.node
    reads = [v for v in node.inputs if v in shared]
    return not node.blocks and (not reads or written_inputs(node) == tuple(reads))


def _pure(node: Node, aliases: AliasDb) -> Node | None:
    """Return a new pure node for one that writes; None where it may give another type."""
    written = node.inputs[0].type
    if not isinstance(written, TensorType) or written.dtype is None or len(node.outputs) != 1:
        return None
    pure = node.graph.create(node.kind[:-1], node.inputs, range=node.range)
    pure.insert_before(node)
    found = infer_types(pure, aliases)[0]
    if isinstance(found, TensorType) and _is_same_form(pure, found, written):
        pure.output.type, pure.output.name = found, node.output.name
        return pure
    pure.destroy()
    return None


def _is_same_form(pure: Node, found: TensorType, written: TensorType) -> bool:
    if found.dtype != written.dtype:
        return False
    tensors = [value for value in pure.inputs if isinstance(value.type, TensorType)]
    if len(tensors) == 1 and torch.Tag.pointwise in tags_of(pure):
        return True
    sizes = found.sizes
    known = sizes is not None and all(isinstance(size, int) for size in sizes)
    return known and sizes == written.sizes


def _replace(node: Node, pure: Node) -> None:
    """Let everything behind a write read the result of the pure node."""
    value = node.inputs[0]
    for use in value.uses:
        if use.user is not pure and node.is_before(use.user):
            use.user.replace_input(use.index, pure.output)
    replace_node(node, pure.outputs)
