"""The order of kernels: among all that respect what needs what, one whose memory peaks low.

Memory is allocated when the node that fills it runs, and free after its last reader. The order of
the program is compared with a greedy one, which always runs the node after which least memory is
held; the lower peak wins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from minitorch2.loopir.buffers import Buffer, ExternKernel
from minitorch2.loopir.expressions import product
from minitorch2.loopir.lowered_graph import LoweredGraph
from minitorch2.loopir.schedule import BaseSchedulerNode, buffers_of

UNKNOWN_ELEMENTS = 4096
WORTH = 0.95
"""A new order must lower the peak to this part at least: the program's order suits caches."""


@dataclass(frozen=True)
class OrderDecision:
    """The peaks in bytes of both orders, and which was taken."""

    program: int
    greedy: int
    reordered: bool

    def __str__(self) -> str:
        kept = "kernels reordered" if self.reordered else "order kept"
        return f"{kept}: intermediates peak at {self.greedy} bytes, {self.program} as written"


class Memory:
    """What is held while nodes run: buffers that other nodes read later, and donated arguments."""

    def __init__(self, nodes: Sequence[BaseSchedulerNode], lowered: LoweredGraph) -> None:
        buffers = {**buffers_of(nodes), **lowered.donated}
        self.outputs = outputs = lowered.output_names
        self.readers = Counter(
            name for node in nodes for name in node.read_names - node.written_names
        )
        seen = {n for n in buffers if n in outputs or self.readers[n]}
        self.bytes = {name: size_of(buffers[name]) for name in seen}
        self.held = self.peak = sum(self.bytes.get(name, 0) for name in lowered.donated)

    def growth(self, node: BaseSchedulerNode) -> int:
        """By how much a node changes what is held, once it is done."""
        dying = (name for name in self._last_read(node) if name not in self.outputs)
        return self._allocated(node) - sum(self.bytes.get(name, 0) for name in dying)

    def run(self, node: BaseSchedulerNode) -> None:
        """Account for a node."""
        self.peak = max(self.peak, self.held + self._allocated(node))
        self.held += self.growth(node)
        self.readers.subtract(node.read_names - node.written_names)

    def _allocated(self, node: BaseSchedulerNode) -> int:
        return sum(self.bytes.get(name, 0) for name in node.written_names)

    def _last_read(self, node: BaseSchedulerNode) -> list[str]:
        names = node.read_names - node.written_names
        return [name for name in names if self.readers[name] == 1]


def size_of(buffer: Buffer) -> int:
    """The bytes of a buffer; a size that is not known counts as 4096 elements."""
    if isinstance(buffer, ExternKernel) and buffer.outputs:
        return 0
    elements = product(buffer.size)
    return (elements if isinstance(elements, int) else UNKNOWN_ELEMENTS) * buffer.dtype.itemsize


def order_nodes(
    nodes: Sequence[BaseSchedulerNode],
    needs: Mapping[BaseSchedulerNode, set[BaseSchedulerNode]],
    lowered: LoweredGraph,
) -> tuple[list[BaseSchedulerNode], OrderDecision]:
    """The nodes in the order to run them; `nodes` are in an order that respects `needs`."""
    greedy = _greedy(nodes, needs, Memory(nodes, lowered))
    before, after = peak_of(nodes, lowered), peak_of(greedy, lowered)
    decision = OrderDecision(before, after, after < WORTH * before)
    return (greedy if decision.reordered else list(nodes)), decision


def _greedy(
    nodes: Sequence[BaseSchedulerNode],
    needs: Mapping[BaseSchedulerNode, set[BaseSchedulerNode]],
    memory: Memory,
) -> list[BaseSchedulerNode]:
    missing = {node: len(needs[node]) for node in nodes}
    followers: dict[BaseSchedulerNode, list[BaseSchedulerNode]] = {node: [] for node in nodes}
    for node in nodes:
        for needed in needs[node]:
            followers[needed].append(node)
    place = {node: position for position, node in enumerate(nodes)}
    ready = [node for node in nodes if not missing[node]]
    order: list[BaseSchedulerNode] = []
    while ready:
        chosen = min(ready, key=lambda node: (memory.growth(node), place[node]))
        ready.remove(chosen)
        memory.run(chosen)
        order.append(chosen)
        for node in followers[chosen]:
            missing[node] -= 1
            if not missing[node]:
                ready.append(node)
    return order


def peak_of(nodes: Sequence[BaseSchedulerNode], lowered: LoweredGraph) -> int:
    """The most bytes that are held at a time while nodes run in this order."""
    memory = Memory(nodes, lowered)
    for node in nodes:
        memory.run(node)
    return memory.peak
