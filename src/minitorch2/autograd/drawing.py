"""A drawing of the cut: the forward and the backward graph, and the values saved for backward.

In Graphviz' language; ``dot -Tsvg cut.dot`` makes it a picture.
"""

from __future__ import annotations

from collections.abc import Iterator

from minitorch2.autograd.partition import Partition
from minitorch2.autograd.recompute import saved_bytes
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node
from minitorch2.native.torch_internals.operators import OpOverload


def draw_cut(parts: Partition) -> str:
    """Draw the partition in DOT: saved values are filled, recomputed ones are dashed."""
    saved = {node.name for node in parts.saved_nodes}
    forward = {node.name for node in parts.forward.graph.nodes if node.op == "call_function"}
    lines = [
        "digraph cut {",
        "    rankdir=TB; node [shape=box, fontname=monospace];",
        *_cluster("forward", parts.forward, saved, set()),
        *_cluster("backward", parts.backward, saved, forward),
        *(f"    {_crossing(node)}" for node in parts.saved_nodes),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _cluster(title: str, module: GraphModule, saved: set[str], known: set[str]) -> Iterator[str]:
    yield f"    subgraph cluster_{title} {{"
    yield f'        label="{title}";'
    for node in module.graph.nodes:
        if node.op != "output":
            yield f"        {title}_{node.name} [{_style(node, saved, known)}];"
            for used in node.all_input_nodes:
                yield f"        {title}_{used.name} -> {title}_{node.name};"
    yield "    }"


def _style(node: Node, saved: set[str], known: set[str]) -> str:
    style = f'label="{node.name}\\n{_operator(node)}"'
    if node.name in saved:
        return f"{style}, style=filled"
    return f"{style}, style=dashed" if node.name in known else style


def _operator(node: Node) -> str:
    if not isinstance(node.target, OpOverload):
        return node.op
    return str(node.target).removesuffix(".default")


def _crossing(node: Node) -> str:
    size = f"{saved_bytes(node):,.0f} bytes"
    return f'forward_{node.name} -> backward_{node.name} [label="{size}", penwidth=2];'
