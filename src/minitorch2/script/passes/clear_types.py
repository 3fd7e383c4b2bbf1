"""Forget what is known of tensors: dtype, device, sizes and gradient flags."""

from __future__ import annotations

from collections.abc import Iterator

from minitorch2.script.ir.graph import Block, Graph, Node, Value
from minitorch2.script.ir.types import erase_facts
from minitorch2.script.passes.rewriting import Rewrite, script_pass


@script_pass
def clear_types(graph: Graph) -> Iterator[Rewrite]:
    """Make each tensor type plain ``Tensor``, inside of containers, too."""
    yield from _clear(graph.block)


def _clear(block: Block) -> Iterator[Rewrite]:
    yield from _clear_outputs(block.parameters)
    for node in block.nodes:
        yield from _clear_outputs(node)
        for inner in node.blocks:
            yield from _clear(inner)


def _clear_outputs(node: Node) -> Iterator[Rewrite]:
    typed: list[Value] = [v for v in node.outputs if erase_facts(v.type) != v.type]
    if typed:
        yield Rewrite("tensors are only tensors", node)
        for value in typed:
            value.type = erase_facts(value.type)
