"""Regions: runs of neighbouring nodes that become the graph of one node.

A node between two members is moved out of the way where no run of the graph can tell (TorchScript
overview, "Writing optimization passes with Aliasing"). The members keep their order, so a region
may write and give views. Constants are copied into it, but for tensors, which the program may write
to. Only tensors leave it, and only tensors and numbers enter it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import torch

from minitorch2.script.analysis.alias_db import AliasDb
from minitorch2.script.ir.graph import Block, Graph, Node, Value
from minitorch2.script.ir.types import BOOL, FLOAT, INT, TensorType
from minitorch2.script.passes.rewriting import Rewrite

Admission: TypeAlias = Callable[[Node], bool]

MOST_MOVES: Final = 16
"""Nodes between two members; more of them end a region."""


def make_regions(
    graph: Graph, kind: str, admits: Admission, is_worth: Callable[[list[Node]], bool]
) -> Iterator[Rewrite]:
    """Put runs of nodes into regions, in all blocks of a graph.

    Args:
        kind: the kind of the new nodes; their graph is the attribute ``Subgraph``.
        admits: whether a node can be part of a region.
        is_worth: whether a run should become one.
    """
    aliases = AliasDb(graph)
    blocks = [graph.block, *(inner for node in graph.nodes() for inner in node.blocks)]
    for block in blocks:
        gather(block, admits, aliases)
    for block in reversed(blocks):
        for run in runs(block, admits):
            if is_worth(run):
                yield Rewrite(f"starts a region of {len(run)} nodes", run[0])
                extract(run, kind)


def gather(block: Block, admits: Admission, aliases: AliasDb) -> None:
    """Move what stands between members of a region in front of the first or behind the last."""
    run, between = list[Node](), list[Node]()
    for node in list(block.nodes):
        if node.kind == "prim::Constant":
            continue
        if node.blocks or not admits(node):
            between.append(node)
            continue
        if len(between) > MOST_MOVES:
            run, between = [], []
        if run:
            between = _moved_in_front(between, run, aliases)
            moves = aliases.move_after_topologically_valid
            behind = [each for each in reversed(between) if moves(each, node)]
            run, between = (run if len(behind) == len(between) else []), behind[::-1]
        else:
            between = []
        run.append(node)


def _moved_in_front(nodes: list[Node], run: list[Node], aliases: AliasDb) -> list[Node]:
    """Move nodes behind a run in front of it, without nodes of the run; return those that stay."""
    stay = list[Node]()
    for node in nodes:
        is_bound = any(aliases.depends(node, each) for each in (*run, *stay))
        if is_bound or not aliases.move_before_topologically_valid(node, run[0]):
            stay.append(node)
    return stay


def runs(block: Block, admits: Admission) -> list[list[Node]]:
    """Return the longest runs of nodes that can be regions; constants between them do not count."""
    found: list[list[Node]] = [[]]
    for node in block.nodes:
        if node.kind == "prim::Constant":
            continue
        if admits(node) and not node.blocks:
            found[-1].append(node)
        elif found[-1]:
            found.append([])
    return [piece for run in found for piece in _closed(run)]


def _closed(run: list[Node]) -> list[list[Node]]:
    """Cut a run at the nodes that would send a list or a number out, or take in a list."""
    inside = set(run)
    for position, node in enumerate(run):
        if any(_leaves(value, inside) for value in node.outputs) or any(
            _enters(value, inside) for value in node.inputs
        ):
            return _closed(run[:position]) + _closed(run[position + 1 :])
    return [run] if run else []


def _leaves(value: Value, inside: set[Node]) -> bool:
    """Return whether a value is read outside and is not a tensor."""
    is_tensor = isinstance(value.type, TensorType)
    return not is_tensor and any(use.user not in inside for use in value.uses)


def _enters(value: Value, inside: set[Node]) -> bool:
    """Return whether a value from outside is neither a tensor nor a number nor a constant."""
    if value.node in inside or value.node.kind == "prim::Constant":
        return False
    return not isinstance(value.type, TensorType) and value.type not in (INT, FLOAT, BOOL)


def extract(run: list[Node], kind: str) -> Node:
    """Move a run into the graph of a new node, which takes its place; return that node."""
    inner = Graph(kind.partition("::")[2])
    values = _entering(run, inner)
    for node in run:
        inner.insert(inner.copy_node(node, values))
    inside = set(run)
    leaving = [v for n in run for v in n.outputs if any(u.user not in inside for u in v.uses)]
    entering = [outer for outer, own in values.items() if own.node is inner.block.parameters]
    outer = run[0].graph
    region = outer.create(kind, entering, [v.type for v in leaving], range=run[0].range)
    region.attributes["Subgraph"] = inner
    region.insert_after(run[-1])
    for old, new in zip(leaving, region.outputs, strict=True):
        inner.add_output(values[old])
        new.name = old.name
        old.replace_all_uses_with(new)
    for node in reversed(run):
        node.destroy()
    return region


def _entering(run: list[Node], inner: Graph) -> dict[Value, Value]:
    """Make inputs, or copies of constants, of a new graph for what a run reads from outside."""
    values: dict[Value, Value] = {}
    inside = set(run)
    for value in (value for node in run for value in node.inputs):
        if value in values or value.node in inside:
            continue
        is_tensor = isinstance(value.constant(), torch.Tensor)
        if value.node.kind == "prim::Constant" and not is_tensor:
            inner.insert(inner.copy_node(value.node, values))
        else:
            values[value] = inner.add_input(value.name, value.type)
    return values
