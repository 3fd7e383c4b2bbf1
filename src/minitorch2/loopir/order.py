"""The order of kernels: one that respects all dependencies, and whose peak of memory is low.

Memory is allocated when the node that fills it runs, and free after its last reader. The order of
the program is compared with a greedy one, which always runs the node after which least memory is
held; the lower peak wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

from minitorch2.loopir.buffers import Buffer, ExternKernel, settles_numbers
from minitorch2.loopir.expressions import product
from minitorch2.loopir.lowered_graph import LoweredGraph
from minitorch2.loopir.schedule import (
    BaseSchedulerNode,
    ExternKernelSchedulerNode,
    NopKernelSchedulerNode,
    buffers_of,
)

Needs: TypeAlias = Mapping[BaseSchedulerNode, Sequence[BaseSchedulerNode]]
"""The nodes that each node directly needs to run first."""

UNKNOWN_ELEMENTS = 4096
WORTH = 0.95
"""A new order must lower the peak to this part at least: the program's order suits caches."""


@dataclass(frozen=True)
class OrderDecision:
    """The peaks in bytes of both orders, and the order that was chosen."""

    program: int
    greedy: int
    reordered: bool

    def __str__(self) -> str:
        kept = "kernels reordered" if self.reordered else "order kept"
        return f"{kept}: intermediates peak at {self.greedy} bytes, {self.program} as written"


def direct_needs(nodes: Sequence[BaseSchedulerNode]) -> Needs:
    """Return the dependencies between the nodes of single buffers, given in the graph's order.

    A node needs the nodes whose buffers it reads. Operators with side effects keep their order. A
    node that settles numbers comes before all nodes that follow it in the graph.
    """
    by_name = {node.name: node for node in nodes}
    needs: dict[BaseSchedulerNode, list[BaseSchedulerNode]] = {}
    effects: BaseSchedulerNode | None = None
    settled: BaseSchedulerNode | None = None
    for node in nodes:
        needs[node] = [by_name[name] for name in sorted(node.read_names) if name in by_name]
        needs[node] += [settled] if settled else []
        if isinstance(node, ExternKernelSchedulerNode) and node.kernel.has_side_effects:
            needs[node] += [effects] if effects else []
            effects = node
        settled = node if _settles_numbers(node) else settled
    return needs


def _settles_numbers(node: BaseSchedulerNode) -> bool:
    if isinstance(node, ExternKernelSchedulerNode):
        return settles_numbers(node.kernel)
    return isinstance(node, NopKernelSchedulerNode) and settles_numbers(node.buffer)


def needs_between(nodes: Sequence[BaseSchedulerNode], needs: Needs) -> Needs:
    """Return the dependencies between nodes of one or several buffers each, from single ones."""
    owner = {member: node for node in nodes for member in node.members}
    result: dict[BaseSchedulerNode, list[BaseSchedulerNode]] = {}
    for node in nodes:
        needed = dict.fromkeys(owner[other] for m in node.members for other in needs[m])
        result[node] = [other for other in needed if other is not node]
    return result


def as_in_program(needs: Needs) -> list[BaseSchedulerNode]:
    """Return the nodes in the order of their first buffers, each behind the nodes that it needs."""
    return list(_in_order(needs, lambda node: node.members[0].order))


def _in_order(
    needs: Needs,
    rank: Callable[[BaseSchedulerNode], Any],
    run: Callable[[BaseSchedulerNode], Iterable[BaseSchedulerNode]] = lambda node: (),
) -> Iterator[BaseSchedulerNode]:
    """Yield the nodes in order: the next one is the ready node of the lowest rank.

    `run` is called with each node, and returns nodes whose rank is lower now.
    """
    missing = {node: len(needed) for node, needed in needs.items()}
    followers = _followers(needs)
    ready = [(rank(node), node.order, node) for node in needs if not missing[node]]
    heapify(ready)
    done: set[BaseSchedulerNode] = set()
    while ready:
        *_, node = heappop(ready)
        if node in done:
            continue
        yield node
        done.add(node)
        changed = [other for other in run(node) if other not in done]
        for other in followers[node]:
            missing[other] -= 1
        for other in dict.fromkeys((*followers[node], *changed)):
            if not missing[other]:
                heappush(ready, (rank(other), other.order, other))


def _followers(needs: Needs) -> dict[BaseSchedulerNode, list[BaseSchedulerNode]]:
    """Return the nodes that need each node."""
    followers: dict[BaseSchedulerNode, list[BaseSchedulerNode]] = {node: [] for node in needs}
    for node, needed in needs.items():
        for other in needed:
            followers[other].append(node)
    return followers


class Memory:
    """The memory held while nodes run: buffers that are read later, and donated arguments."""

    def __init__(self, nodes: Sequence[BaseSchedulerNode], lowered: LoweredGraph) -> None:
        buffers = {**buffers_of(nodes), **lowered.donated}
        self.outputs = outputs = lowered.output_names
        self.readers: dict[str, list[BaseSchedulerNode]] = {}
        for node in nodes:
            for name in node.read_names - node.written_names:
                self.readers.setdefault(name, []).append(node)
        self.left = {name: len(readers) for name, readers in self.readers.items()}
        seen = {n for n in buffers if n in outputs or n in self.readers}
        self.bytes = {name: size_of(buffers[name]) for name in seen}
        self.held = self.peak = sum(self.bytes.get(name, 0) for name in lowered.donated)

    def growth(self, node: BaseSchedulerNode) -> int:
        """Return the change of the bytes held when a node is done."""
        read = node.read_names - node.written_names - self.outputs
        dying = (name for name in read if self.left[name] == 1)
        return self._allocated(node) - sum(self.bytes.get(name, 0) for name in dying)

    def run(self, node: BaseSchedulerNode) -> list[BaseSchedulerNode]:
        """Account for a node; return the nodes that may now be the last readers of a buffer."""
        self.peak = max(self.peak, self.held + self._allocated(node))
        self.held += self.growth(node)
        changed = []
        for name in node.read_names - node.written_names:
            self.left[name] -= 1
            changed += self.readers[name] if self.left[name] == 1 else []
        return changed

    def _allocated(self, node: BaseSchedulerNode) -> int:
        return sum(self.bytes.get(name, 0) for name in node.written_names)


def size_of(buffer: Buffer) -> int:
    """Return the bytes of a buffer; a size that is not known counts as 4096 elements."""
    if isinstance(buffer, ExternKernel) and buffer.outputs:
        return 0
    elements = product(buffer.size)
    return (elements if isinstance(elements, int) else UNKNOWN_ELEMENTS) * buffer.dtype.itemsize


def order_nodes(
    nodes: Sequence[BaseSchedulerNode], needs: Needs, lowered: LoweredGraph
) -> tuple[list[BaseSchedulerNode], OrderDecision]:
    """Return the nodes in the order to run them; `nodes` are in an order that respects `needs`."""
    greedy = _greedy(nodes, needs, Memory(nodes, lowered))
    before, after = peak_of(nodes, lowered), peak_of(greedy, lowered)
    decision = OrderDecision(before, after, after < WORTH * before)
    return (greedy if decision.reordered else list(nodes)), decision


def _greedy(
    nodes: Sequence[BaseSchedulerNode], needs: Needs, memory: Memory
) -> list[BaseSchedulerNode]:
    """Return the nodes, always the ready one after which least is held, or the program's first."""
    place = {node: position for position, node in enumerate(nodes)}
    return list(_in_order(needs, lambda node: (memory.growth(node), place[node]), memory.run))


def peak_of(nodes: Sequence[BaseSchedulerNode], lowered: LoweredGraph) -> int:
    """Return the most bytes that are held at a time while nodes run in this order."""
    memory = Memory(nodes, lowered)
    for node in nodes:
        memory.run(node)
    return memory.peak
