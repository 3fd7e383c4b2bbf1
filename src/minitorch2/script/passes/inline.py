"""Put the graphs of called functions and methods in the place of their calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from minitorch2.script.ir.graph import Graph, Node
from minitorch2.script.ir.types import ClassType
from minitorch2.script.passes.copying import copies_before, replace_node
from minitorch2.script.passes.rewriting import Rewrite, script_pass


@script_pass
def inline(graph: Graph) -> Iterator[Rewrite]:
    """Inline every call, and the calls inside of what was inlined.

    A call of a function that is being inlined stays: recursion has no end.
    """
    yield from _inline(graph.nodes(), (graph,))


def _inline(nodes: Iterable[Node], callers: tuple[Graph, ...]) -> Iterator[Rewrite]:
    for node in list(nodes):
        called = called_graph(node)
        if called is None or any(called is caller for caller in callers):
            continue
        yield Rewrite(f"{called.name} is inlined", node)
        values = dict(zip(called.inputs, node.inputs, strict=True))
        copies = copies_before(called.block.nodes, node, values)
        replace_node(node, [values[output] for output in called.outputs])
        yield from _inline(_with_inner(copies), (*callers, called))


def _with_inner(nodes: list[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        for block in node.blocks:
            yield from block.all_nodes()


def called_graph(node: Node) -> Graph | None:
    """Return the graph that a node calls; None where it calls nothing, or Python."""
    if node.kind == "prim::CallFunction":
        graph = getattr(node.attributes["function"], "graph", None)
    elif node.kind == "prim::CallMethod" and isinstance(node.inputs[0].type, ClassType):
        methods = getattr(node.inputs[0].type.owner, "methods", {})
        graph = getattr(methods.get(node.attributes["name"]), "graph", None)
    else:
        return None
    return graph if isinstance(graph, Graph) else None
