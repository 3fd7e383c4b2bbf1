"""The least cut of a network, by Dinic's algorithm.

Its nodes are anything hashable. As long as flow can reach the sink, it is sent along shortest paths
only, until each of these has a full edge; then paths are longer, so there are at most as many
rounds as nodes. What still reaches the sink when nothing more can flow is one side of the cut
(E. A. Dinic, "Algorithm for solution of a problem of maximum flow in networks with power
estimation", 1970).
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable
from itertools import pairwise
from typing import TypeAlias, TypeVar

N = TypeVar("N")
Residual: TypeAlias = "defaultdict[N, dict[N, float]]"


def sink_side(edges: Iterable[tuple[N, N, float]], source: N, sink: N) -> set[N]:
    """The nodes on the sink's side of the least cut (of several, of the one nearest to the sink).

    Args:
        edges: (from, to, capacity); the capacity may be infinite.

    Raises:
        ValueError: every cut has an infinite capacity.
    """
    residual: Residual[N] = defaultdict(dict)
    for tail, head, capacity in edges:
        residual[tail][head] = residual[tail].get(head, 0.0) + capacity
        residual[head].setdefault(tail, 0.0)
    while sink in (levels := _levels(residual, source)):
        _fill_shortest_paths(residual, levels, source, sink)
    return _reaching(residual, sink)


def _levels(residual: Residual[N], source: N) -> dict[N, int]:
    """How many edges away from the source each node is that flow can reach."""
    levels, queue = {source: 0}, deque([source])
    while queue:
        tail = queue.popleft()
        for head, free in residual[tail].items():
            if free and head not in levels:
                levels[head] = levels[tail] + 1
                queue.append(head)
    return levels


def _reaching(residual: Residual[N], sink: N) -> set[N]:
    """The nodes from which flow can reach the sink."""
    found, queue = {sink}, deque([sink])
    while queue:
        head = queue.popleft()
        for tail in residual[head]:
            if residual[tail][head] and tail not in found:
                found.add(tail)
                queue.append(tail)
    return found


def _fill_shortest_paths(residual: Residual[N], levels: dict[N, int], source: N, sink: N) -> None:
    """Send flow along edges that lead one level further, until no such path is left."""
    untried = {node: [*residual[node]] for node in levels}
    path = [source]
    while path:
        tail = path[-1]
        if tail == sink:
            del path[_send(residual, path) + 1 :]
        elif not untried[tail]:
            path.pop()
            if path:
                untried[path[-1]].pop()
        elif _leads_on(residual, levels, tail, head := untried[tail][-1]):
            path.append(head)
        else:
            untried[tail].pop()


def _leads_on(residual: Residual[N], levels: dict[N, int], tail: N, head: N) -> bool:
    return residual[tail][head] > 0 and levels.get(head) == levels[tail] + 1


def _send(residual: Residual[N], path: list[N]) -> int:
    """Send as much as the path holds; the place of the node behind which it is full then."""
    steps = [*pairwise(path)]
    flow = min(residual[tail][head] for tail, head in steps)
    if math.isinf(flow):
        raise ValueError(f"every cut between {path[0]!r} and {path[-1]!r} is infinite")
    for tail, head in steps:
        residual[tail][head] -= flow
        residual[head][tail] += flow
    return next(i for i, (tail, head) in enumerate(steps) if not residual[tail][head])
