"""Write the body of a small loop as often as it runs, where that number is known.

Behind it, each repetition has its own values: constants and matrix products of all of them meet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from minitorch2.script.ir.graph import Graph, Node
from minitorch2.script.passes.copying import Replacements, inline_block, replace_node
from minitorch2.script.passes.rewriting import Rewrite, script_pass

MOST_TRIPS: Final = 8
MOST_NODES: Final = 256


@script_pass
def unroll_loops(graph: Graph) -> Iterator[Rewrite]:
    """Unroll each ``for`` of a known, small number of trips; inner loops first.

    A loop whose number of trips is not known stays: in regions its copies would be compiled, too.
    """
    for node in [n for n in graph.nodes() if n.kind == "prim::Loop"][::-1]:
        trips = trips_of(node)
        if trips is not None and _is_small(node, trips):
            yield Rewrite(f"runs {trips} times", node)
            _unroll(node, trips)


def trips_of(loop: Node) -> int | None:
    """Return how often a loop runs; None where only its run tells."""
    trips, first = loop.constant(0), loop.constant(1)
    always = first is True and loop.blocks[0].outputs[0].constant() is True
    return max(trips, 0) if always and isinstance(trips, int) else None


def _is_small(loop: Node, trips: int) -> bool:
    nodes = sum(1 for _ in loop.blocks[0].all_nodes())
    return trips <= MOST_TRIPS and trips * nodes <= MOST_NODES


def _unroll(loop: Node, trips: int) -> None:
    body, carried = loop.blocks[0], list(loop.inputs[2:])
    for trip in range(trips):
        with loop.graph.inserting_before(loop):
            index = loop.graph.constant(trip, range=loop.range)
        values = Replacements(zip(body.inputs, [index, *carried], strict=True))
        carried = inline_block(body, loop, values)[1:]
    replace_node(loop, carried)
