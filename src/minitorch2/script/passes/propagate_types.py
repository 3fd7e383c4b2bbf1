"""Carry what is known of the inputs' tensors to the rest of the graph.

Known are dtype, device, rank, sizes and gradient flags (TorchScript overview, "Required Passes").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from minitorch2.script.analysis.alias_db import AliasDb
from minitorch2.script.ir.graph import Block, Graph, Node
from minitorch2.script.ir.types import TensorType, TupleType, Type, erase_facts, unify
from minitorch2.script.passes.rewriting import Rewrite, script_pass
from minitorch2.script.passes.shapes import infer_types

KEPT: Final = frozenset(
    ["prim::Constant", "prim::guard", "prim::bailout", "prim::profile", "prim::Uninitialized"]
)
MOST_ROUNDS: Final = 4


@script_pass
def propagate_types(graph: Graph) -> Iterator[Rewrite]:
    """Give each value the most exact type that holds at any time; inputs keep theirs."""
    aliases = AliasDb(graph)
    for value in graph.inputs:
        if isinstance(value.type, TensorType) and aliases.changes_form(value):
            value.type = erase_facts(value.type)
    yield from _propagate(graph.block, aliases)


def _propagate(block: Block, aliases: AliasDb) -> Iterator[Rewrite]:
    for node in block.nodes:
        if node.kind == "prim::Loop":
            yield from _propagate_loop(node, aliases)
            continue
        for inner in node.blocks:
            yield from _propagate(inner, aliases)
        yield from _set_types(node, _types(node, aliases))


def _types(node: Node, aliases: AliasDb) -> list[Type]:
    if node.kind in KEPT:
        return [output.type for output in node.outputs]
    if node.kind == "prim::If":
        pairs = zip(*(block.outputs for block in node.blocks), strict=True)
        return [_joined([v.type for v in pair]) for pair in pairs]
    if node.kind == "prim::TupleConstruct" and isinstance(made := node.output.type, TupleType):
        elements = tuple(value.type for value in node.inputs)
        return [replace(made, elements=elements)]
    if node.kind == "prim::TupleUnpack" and isinstance(read := node.inputs[0].type, TupleType):
        return list(read.elements)
    return infer_types(node, aliases)


def _joined(types: list[Type]) -> Type:
    """Return the type of a value that is of one of two types."""
    joined = unify(*types)
    return types[0] if joined is None else joined


def _propagate_loop(loop: Node, aliases: AliasDb) -> Iterator[Rewrite]:
    """Assume that a loop carries what it starts with, and weaken that until it holds."""
    body = loop.blocks[0]
    assumed = [value.type for value in loop.inputs[2:]]
    for rounds in range(MOST_ROUNDS):
        yield from _set_types(body.parameters, [body.inputs[0].type, *assumed])
        yield from _propagate(body, aliases)
        pairs = zip(assumed, body.outputs[1:], strict=True)
        joined = [_joined([start, again.type]) for start, again in pairs]
        if joined == assumed:
            break
        assumed = joined if rounds < MOST_ROUNDS - 2 else list(map(erase_facts, joined))
    yield from _set_types(loop, assumed)


def _set_types(node: Node, types: list[Type]) -> Iterator[Rewrite]:
    """Set the types of tensors, and of tuples of them; all others are the program's own."""
    pairs = list(zip(node.outputs, types, strict=True))
    better = [(v, t) for v, t in pairs if v.type != t and erase_facts(v.type) == erase_facts(t)]
    if better:
        yield Rewrite(f"gives {', '.join(str(t) for _, t in better)}", node)
        for value, found in better:
            value.type = found
