"""Remove nodes, and outputs of branches and loops, that nothing reads.

A write stays while anyone may see it: the caller, or a value that is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from minitorch2.script.analysis.alias_db import AliasDb
from minitorch2.script.analysis.effects import has_side_effects, may_raise
from minitorch2.script.ir.graph import Block, Graph, Node, Value
from minitorch2.script.passes.copying import block_of
from minitorch2.script.passes.rewriting import Rewrite, script_pass


@script_pass
def eliminate_dead_code(graph: Graph) -> Iterator[Rewrite]:
    """Remove what nothing reads; errors and effects stay."""
    yield from _sweep(graph.block, Needed(graph))


class Needed:
    """The values that someone reads, and the nodes that must stay."""

    def __init__(self, graph: Graph) -> None:
        self.values: set[Value] = set()
        self.nodes: set[Node] = set()
        self._aliases = AliasDb(graph)
        self._seen = set(self._aliases.known_outside)
        nodes = list(graph.nodes())
        self._read(graph.outputs)
        for node in nodes:
            if has_side_effects(node) or may_raise(node):
                self._keep(node)
        while unkept := [node for node in nodes if self._is_seen(node)]:
            for node in unkept:
                self._keep(node)

    def _is_seen(self, writer: Node) -> bool:
        """Return whether someone may see a write of a node that is not kept yet."""
        return writer not in self.nodes and bool(self._aliases.own_writes(writer) & self._seen)

    def _read(self, values: Iterable[Value]) -> None:
        todo = list(values)
        while todo:
            value = todo.pop()
            if value not in self.values:
                self.values.add(value)
                self._seen |= self._aliases.memory(value)
                todo.extend(self._sources(value))

    def _keep(self, node: Node) -> None:
        self._read(self._inputs(node))

    def _inputs(self, node: Node) -> Iterator[Value]:
        """Yield what a node that stays reads besides its outputs' sources, and keep its owners."""
        while node not in self.nodes:
            self.nodes.add(node)
            if node.kind == "prim::Loop":
                yield from (*node.inputs[:2], node.blocks[0].outputs[0])
            elif node.kind == "prim::If":
                yield node.inputs[0]
            else:
                yield from node.inputs
                for block in node.blocks:
                    yield from block.outputs
            owner = block_of(node).owner
            if owner is None:
                return
            node = owner

    def _sources(self, value: Value) -> Iterator[Value]:
        """Yield the values that a value which someone reads comes from."""
        node = value.node
        if node.kind == "prim::Param":
            owner, position = block_of(node).owner, value.index
            if owner is not None:
                yield from self._inputs(owner)
                if owner.kind == "prim::Loop" and position > 0:
                    yield from _slot(owner, position - 1)
            return
        yield from self._inputs(node)
        if node.kind == "prim::If":
            yield from (block.outputs[value.index] for block in node.blocks)
        elif node.kind == "prim::Loop":
            yield from _slot(node, value.index)


def _slot(loop: Node, index: int) -> tuple[Value, ...]:
    """Return the values that a loop carries at a position: first, inside, again, and last."""
    body = loop.blocks[0]
    return (
        loop.inputs[index + 2],
        body.inputs[index + 1],
        body.outputs[index + 1],
        loop.outputs[index],
    )


def _sweep(block: Block, needed: Needed) -> Iterator[Rewrite]:
    for node in list(block.nodes)[::-1]:
        if node not in needed.nodes:
            yield Rewrite("nobody reads it", node)
            node.destroy()
            continue
        dead = [i for i, output in enumerate(node.outputs) if output not in needed.values]
        if node.kind == "prim::If":
            yield from _remove_outputs(node, dead)
        elif node.kind == "prim::Loop":
            yield from _cut_slots(node, dead)
        for inner in node.blocks:
            yield from _sweep(inner, needed)
        if node.kind == "prim::Loop":
            yield from _remove_outputs(node, dead)


def _cut_slots(loop: Node, dead: list[int]) -> Iterator[Rewrite]:
    """Let a loop carry what nobody reads unchanged, so that the body need not compute it."""
    body = loop.blocks[0]
    for index in dead:
        if body.outputs[index + 1] is not body.inputs[index + 1]:
            yield Rewrite(f"nobody reads what output {index} carries", loop)
            body.replace_output(index + 1, body.inputs[index + 1])


def _remove_outputs(node: Node, dead: list[int]) -> Iterator[Rewrite]:
    """Remove outputs of a branch or loop, with what its blocks give for them."""
    for index in reversed(dead):
        yield Rewrite(f"nobody reads output {index}", node)
        node.remove_output(index)
        if node.kind == "prim::If":
            for block in node.blocks:
                block.remove_output(index)
        else:
            node.blocks[0].remove_output(index + 1)
            node.blocks[0].remove_input(index + 1)
            node.remove_input(index + 2)
