"""Keep one node for each constant, at the start of the graph."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from minitorch2.script.ir.graph import Graph, Node
from minitorch2.script.passes.constants import key_of
from minitorch2.script.passes.copying import replace_node
from minitorch2.script.passes.rewriting import Rewrite, script_pass


@script_pass
def pool_constants(graph: Graph) -> Iterator[Rewrite]:
    """Move constants to the start of the graph, and merge those of one type and value."""
    pooled: dict[Hashable, Node] = {}
    last = graph.block.parameters
    for node in [node for node in graph.nodes() if node.kind == "prim::Constant"]:
        first = pooled.setdefault((node.output.type, key_of(node.attributes["value"])), node)
        if first is not node:
            yield Rewrite("the constant exists", node)
            replace_node(node, first.outputs)
        elif node.previous is not last:
            yield Rewrite("constants come first", node)
            node.move_after(last)
        if first is node:
            last = node
