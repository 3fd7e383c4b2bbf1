"""The least cut of a network; networkx finds it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

N = TypeVar("N")


def sink_side(edges: Iterable[tuple[N, N, float]], source: N, sink: N) -> set[N]:
    """Return the nodes on the sink's side of the least cut; of several, the nearest to the sink."""
    import networkx  # 285 modules, which only programs with gradients need

    network = networkx.DiGraph()
    network.add_nodes_from((source, sink))
    network.add_weighted_edges_from(edges, weight="capacity")
    try:
        _, (_, beyond) = networkx.minimum_cut(
            network, source, sink, flow_func=networkx.algorithms.flow.boykov_kolmogorov
        )
    except networkx.NetworkXUnbounded as error:
        raise ValueError(f"every cut between {source!r} and {sink!r} is infinite") from error
    found: set[N] = set(beyond)
    return found
