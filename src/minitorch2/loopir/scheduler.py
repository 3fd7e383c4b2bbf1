"""From buffers to a schedule: the greedy fusion loop and the order of kernels.

    1. every buffer becomes a node; a read of a buffer is an edge from its node
    2. until nothing changes: find all pairs that may be fused, sort by score, fuse each that is
       still legal; pairs that wait for a fused node are re-pointed to the new one
    3. kernels in an order that respects the edges; loops ordered by vote and merged
    4. memory: which buffers vanish, when each dies, who takes over whose memory

This is the algorithm of the PyTorch 2 paper, section 4.4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import torch

from minitorch2 import config, stages
from minitorch2.logs import get_logger
from minitorch2.loopir.buffers import (
    Buffer,
    ComputedBuffer,
    ExternKernel,
    MultiOutput,
    settles_numbers,
)
from minitorch2.loopir.expressions import product
from minitorch2.loopir.fusion import Score, can_fuse, common_bytes, fuse, score_fusion
from minitorch2.loopir.loop_order import match_order, settle_loops
from minitorch2.loopir.lower_graph import LoweredGraph
from minitorch2.loopir.memory_plan import plan_memory
from minitorch2.loopir.order import order_nodes
from minitorch2.loopir.schedule import (
    BaseSchedulerNode,
    Capabilities,
    ExternKernelSchedulerNode,
    FusedSchedulerNode,
    FusionDecision,
    KernelNode,
    NopKernelSchedulerNode,
    Refusal,
    Schedule,
    SchedulerNode,
)

_LOGGER = get_logger(__name__)
_MOST_NEIGHBOURS = 24
"""Of many readers of one buffer, each is paired with so many that follow it."""
SMALL_KERNEL = 1 << 18
"""A kernel over so many elements takes about as long as its launch."""


def schedule(lowered: LoweredGraph, capabilities: Capabilities) -> Schedule:
    """Schedule a lowered graph for a code generator."""
    with stages.phase("schedule"):
        return Scheduler(lowered, capabilities).run()


def allowed(capabilities: Capabilities) -> Capabilities:
    """The capabilities that the options leave in force."""
    options = config.current()
    return replace(
        capabilities,
        max_fusion_size=capabilities.max_fusion_size if options.fusion else 1,
        reorders_loops=capabilities.reorders_loops and options.reorder_loops,
    )


def create_node(buffer: Buffer, order: int) -> BaseSchedulerNode:
    """The node of a buffer."""
    if isinstance(buffer, ComputedBuffer):
        return SchedulerNode(buffer, order)
    if isinstance(buffer, ExternKernel):
        return ExternKernelSchedulerNode(buffer, order)
    assert isinstance(buffer, MultiOutput)
    return NopKernelSchedulerNode(buffer, order)


class _Place:
    """A node in the graph of nodes. Sets of nodes are integers: bit i is the buffer of order i."""

    def __init__(self, node: BaseSchedulerNode) -> None:
        self.node = node
        self.bits = sum(1 << member.order for member in node.members)
        self.before = 0  # everything that must run earlier
        self.after = 0


class Scheduler:
    """One scheduling; `places` maps each buffer name to the node that it is in now."""

    def __init__(self, lowered: LoweredGraph, capabilities: Capabilities) -> None:
        self.lowered = lowered
        self.capabilities = allowed(capabilities)
        self.log: list[FusionDecision] = []
        self.places: dict[str, _Place] = {}
        self.readers: dict[str, set[str]] = {}
        self.dtypes = dtypes_of(lowered)
        for order, buffer in enumerate(lowered.buffers):
            self.places[buffer.name] = _Place(create_node(buffer, order))
        self._connect()
        self._refused: set[tuple[int, int]] = set()

    def run(self) -> Schedule:
        """All steps."""
        before = sum(isinstance(place.node, SchedulerNode) for place in self._distinct())
        stages.count("kernels_before_fusion", before)
        while self._fuse_round():
            pass
        nodes, ordered = order_nodes(*self._in_order(), self.lowered)
        decisions: list[object] = [ordered]
        for node in nodes:
            if isinstance(node, (SchedulerNode, FusedSchedulerNode)):
                decisions += settle_loops(node, reorders=self.capabilities.reorders_loops)
        result = plan_memory(Schedule(nodes, log=self.log), self.lowered, self.capabilities)
        self._record([*self.lowered.decisions, *self.log, *decisions, *result.memory_decisions()])
        kernels = len(result.kernels())
        stages.count("kernels", kernels)
        stages.count("fusions", before - kernels)
        return result

    def _record(self, decisions: list[object]) -> None:
        """Everything that was decided about the graph, with reasons and numbers."""
        if stages.wanted("decisions.txt"):
            stages.record("decisions.txt", "\n".join(map(str, decisions)))

    # -- the graph of nodes ---------------------------------------------------------------------

    def _connect(self) -> None:
        """Fill `before` and `after`; operators with side effects keep their order.

        What settles numbers comes before all that followed it in the graph.
        """
        effects: _Place | None = None
        settled = 0
        for place in self.places.values():
            needed = [self.places[n] for n in place.node.read_names if n in self.places]
            if _has_side_effects(place.node):
                needed += [effects] if effects else []
                effects = place
            place.before |= settled
            for other in needed:
                place.before |= other.before | other.bits
            if _settles_numbers(place.node):
                settled |= place.before | place.bits
        everyone = list(self.places.values())
        for place in everyone:
            for other in everyone:
                if place.before & other.bits:
                    other.after |= place.bits

    def _distinct(self) -> list[_Place]:
        return list({id(place): place for place in self.places.values()}.values())

    def _is_cycle(self, first: _Place, second: _Place) -> bool:
        """Whether some third node must run between the two."""
        own = first.bits | second.bits
        return bool(first.after & second.before & ~own or second.after & first.before & ~own)

    def _join(self, first: _Place, second: _Place) -> None:
        place = _Place(fuse(_kernel(first), _kernel(second)))
        place.before = (first.before | second.before) & ~place.bits
        place.after = (first.after | second.after) & ~place.bits
        for other in self._distinct():
            if other.before & place.bits:
                other.before |= place.before | place.bits
            if other.after & place.bits:
                other.after |= place.after | place.bits
        for member in place.node.members:
            self.places[member.name] = place

    # -- fusion -----------------------------------------------------------------------------------

    def _fuse_round(self) -> bool:
        """One round of the greedy loop; whether anything was fused."""
        scored = [(score, a, b) for a, b in self._candidates() if (score := self._consider(a, b))]
        scored.sort(key=lambda item: item[0], reverse=True)
        changed = False
        for score, first_name, second_name in scored:
            first, second = self._ordered(self.places[first_name], self.places[second_name])
            if first is second or not self._is_legal(first, second):
                continue
            self._decide(first, second, score, None)
            self._join(first, second)
            changed = True
        return changed

    def _candidates(self) -> Iterator[tuple[str, str]]:
        """Pairs of kernels that touch a common buffer, by the names of two of their buffers."""
        touching: dict[str, list[_Place]] = {}
        self._note_readers()
        for place in self._distinct():
            if isinstance(place.node, (SchedulerNode, FusedSchedulerNode)):
                for name in self._touched(place.node):
                    touching.setdefault(name, []).append(place)
        seen: set[tuple[int, int]] = set()
        for places in touching.values():
            for i, first in enumerate(places):
                for second in islice(places, i + 1, i + 1 + _MOST_NEIGHBOURS):
                    pair = (first.bits, second.bits)
                    if pair not in seen and pair not in self._refused:
                        seen.add(pair)
                        yield first.node.members[0].name, second.node.members[0].name

    def _touched(self, node: BaseSchedulerNode) -> frozenset[str]:
        """The buffers that a kernel touches, and the kernels before and behind it, if siblings may
        be fused."""
        touched = node.read_names | node.written_names
        if not self.capabilities.fuses_siblings:
            return touched
        return touched | self._sources(node) | self._targets(node)

    def _sources(self, node: BaseSchedulerNode) -> frozenset[str]:
        """The names of the kernels that compute what a node reads."""
        sources = (self.places[name].node for name in node.read_names if name in self.places)
        return frozenset(source.name for source in sources if source.members != [source])

    def _targets(self, node: BaseSchedulerNode) -> frozenset[str]:
        """The names of the generated kernels that read what a node computes."""
        return frozenset().union(*(self.readers.get(name, ()) for name in node.written_names))

    def _note_readers(self) -> None:
        self.readers = dict[str, set[str]]()
        for place in self._distinct() if self.capabilities.fuses_siblings else ():
            if isinstance(place.node, (SchedulerNode, FusedSchedulerNode)):
                for name in place.node.read_names:
                    self.readers.setdefault(name, set()).add(place.node.name)

    def _consider(self, first_name: str, second_name: str) -> Score | None:
        """The score of a pair that may be fused now."""
        first, second = self._ordered(self.places[first_name], self.places[second_name])
        if not self._is_legal(first, second):
            return None
        return score_fusion(_kernel(first), _kernel(second), self.dtypes)

    def _is_legal(self, first: _Place, second: _Place) -> bool:
        refusal = self._refusal(first, second)
        if refusal is not None:
            self._refused.add((first.bits, second.bits))
            self._refused.add((second.bits, first.bits))
            self._decide(first, second, None, refusal)
        return refusal is None

    def _refusal(self, first: _Place, second: _Place) -> Refusal | None:
        if self._is_cycle(first, second):
            return Refusal("another node must run between them")
        a, b = _kernel(first), _kernel(second)
        refusal = can_fuse(a, b, self.capabilities)
        if refusal is not None and self.capabilities.reorders_loops and match_order(a, b):
            refusal = can_fuse(a, b, self.capabilities)
        if refusal is None and not a.written_names & b.read_names:
            return self._refuse_horizontal(a, b)
        return refusal

    def _refuse_horizontal(self, first: KernelNode, second: KernelNode) -> Refusal | None:
        """Two kernels that only share inputs are worth one if they share all of an input, or if
        there is so little to do that a launch would count."""
        if not self.capabilities.fuses_horizontally:
            return Refusal("the code generator wants no horizontal fusion")
        if common_bytes(first, second, self.dtypes)[1] or self._are_siblings(first, second):
            return None
        return Refusal("they share no whole input")

    def _are_siblings(self, first: KernelNode, second: KernelNode) -> bool:
        """Whether two small kernels with equal loops go on with the results of one kernel, or one
        goes on with theirs."""
        if not self.capabilities.fuses_siblings or first.group != second.group:
            return False
        elements = product(first.group)
        is_small = isinstance(elements, int) and elements <= SMALL_KERNEL
        return is_small and bool(
            self._sources(first) & self._sources(second)
            or self._targets(first) & self._targets(second)
        )

    def _ordered(self, first: _Place, second: _Place) -> tuple[_Place, _Place]:
        """The producer first; else the earlier one."""
        if second.before & first.bits:
            return first, second
        if first.before & second.bits or second.bits & -second.bits < first.bits & -first.bits:
            return second, first
        return first, second

    def _decide(
        self, first: _Place, second: _Place, score: Score | None, refusal: Refusal | None
    ) -> None:
        decision = FusionDecision(first.node.name, second.node.name, score, refusal)
        self.log.append(decision)
        _LOGGER.debug("%s", decision)

    # -- order -------------------------------------------------------------------------------------

    def _in_order(
        self,
    ) -> tuple[list[BaseSchedulerNode], dict[BaseSchedulerNode, set[BaseSchedulerNode]]]:
        """Kernels by their first buffer, each after what it needs; and what each needs."""
        places = self._distinct()
        needs = {
            place.node: {other.node for other in places if other.bits & place.before}
            for place in places
        }
        waiting = sorted(places, key=lambda place: place.bits & -place.bits)
        done, nodes = 0, []
        while waiting:
            ready = next(place for place in waiting if not place.before & ~done)
            waiting.remove(ready)
            done |= ready.bits
            nodes.append(ready.node)
        return nodes, needs


def _kernel(place: _Place) -> KernelNode:
    assert isinstance(place.node, (SchedulerNode, FusedSchedulerNode))
    return place.node


def _has_side_effects(node: BaseSchedulerNode) -> bool:
    return isinstance(node, ExternKernelSchedulerNode) and node.kernel.has_side_effects


def _settles_numbers(node: BaseSchedulerNode) -> bool:
    if isinstance(node, ExternKernelSchedulerNode):
        return settles_numbers(node.kernel)
    return isinstance(node, NopKernelSchedulerNode) and settles_numbers(node.buffer)


def dtypes_of(lowered: LoweredGraph) -> dict[str, torch.dtype]:
    """The dtype of every buffer by name."""
    inputs = {b.name: b.dtype for b in lowered.inputs if isinstance(b, Buffer)}
    constants = {name: value.dtype for name, value in lowered.constants.items()}
    return inputs | constants | {buffer.name: buffer.dtype for buffer in lowered.buffers}
