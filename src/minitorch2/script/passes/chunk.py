"""Write a ``chunk`` into a known number of parts as one node with that many outputs.

`prim::ConstantChunk` can be fused; a list of tensors cannot (TorchScript overview, LSTM example).
"""

from __future__ import annotations

from collections.abc import Iterator

from minitorch2.script.ir.graph import Graph, Node
from minitorch2.script.passes.copying import replace_node
from minitorch2.script.passes.rewriting import Rewrite, script_pass


@script_pass
def chunk(graph: Graph) -> Iterator[Rewrite]:
    """Replace ``chunk`` and the unpacking of its list, where both numbers are constants."""
    for node in list(graph.nodes()):
        if node.kind == "prim::ListUnpack" and _is_constant_chunk(node.inputs[0].node, node):
            yield Rewrite(f"unpacks {len(node.outputs)} chunks", node)
            _replace(node.inputs[0].node, node)


def _is_constant_chunk(split: Node, unpack: Node) -> bool:
    if split.kind != "aten::chunk" or len(split.output.uses) != 1:
        return False
    if split.block is not unpack.block:  # otherwise the views would be taken later
        return False
    return split.constant(1) == len(unpack.outputs) and isinstance(split.constant(2), int)


def _replace(split: Node, unpack: Node) -> None:
    types = [output.type for output in unpack.outputs]
    graph, inputs = split.graph, split.inputs[:1]
    parts = graph.create("prim::ConstantChunk", inputs, types, range=split.range)
    parts.attributes.update(chunks=split.constant(1), dim=split.constant(2))
    parts.insert_before(split)
    for new, old in zip(parts.outputs, unpack.outputs, strict=True):
        new.name = old.name
    replace_node(unpack, parts.outputs)
    split.destroy()
