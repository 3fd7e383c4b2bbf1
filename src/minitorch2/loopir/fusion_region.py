"""The greedy fusion loop over a run of nodes.

    until nothing changes: find all pairs that may be fused, sort by score, fuse each that is still
    legal; pairs that wait for a fused node are re-pointed to the new one

This is the algorithm of the PyTorch 2 paper, section 4.4. Each node has the set of nodes that must
run before it, and the set of those after it. A region has at most `MOST_NODES` nodes, so that the
work for a graph grows with its size, not with the square of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import torch

from minitorch2 import stages
from minitorch2.graph.rewriting import FUSIONS, limit_of
from minitorch2.logs import get_logger
from minitorch2.loopir.expressions import product
from minitorch2.loopir.fusion import Score, can_fuse, common_bytes, fuse, score_of
from minitorch2.loopir.loop_order import match_order
from minitorch2.loopir.order import Needs
from minitorch2.loopir.schedule import (
    BaseSchedulerNode,
    Capabilities,
    FusedSchedulerNode,
    FusionDecision,
    KernelNode,
    Refusal,
    SchedulerNode,
)

_LOGGER = get_logger(__name__)
MOST_NODES = 512
"""The nodes of a region, at most."""
_MOST_NEIGHBOURS = 24
"""Of many readers of one buffer, each is paired with some of so many that follow it..."""
_ENOUGH_NEIGHBOURS = 8
"""...until so many may be fused with it."""
SMALL_KERNEL = 1 << 18
"""A kernel over so many elements takes about as long as its launch."""


def regions(nodes: Sequence[BaseSchedulerNode]) -> Iterator[Sequence[BaseSchedulerNode]]:
    """Cut the nodes of a graph into regions, behind calls where there are any."""
    start = 0
    while len(nodes) - start > MOST_NODES:
        most, least = start + MOST_NODES, start + MOST_NODES // 2
        behind = (end for end in range(most, least, -1) if not _is_kernel(nodes[end - 1]))
        end = next(behind, most)
        yield nodes[start:end]
        start = end
    yield nodes[start:]


def _is_kernel(node: BaseSchedulerNode) -> bool:
    return isinstance(node, SchedulerNode | FusedSchedulerNode)


class _Place:
    """A node in the region. Sets of nodes are integers: bit i is the region's node i."""

    def __init__(self, node: BaseSchedulerNode, bits: int) -> None:
        self.node = node
        self.bits = bits
        self.before = 0  # everything that must run earlier
        self.after = 0


class Region:
    """A run of nodes; `places` maps each buffer name to the node that it is in now."""

    def __init__(
        self,
        nodes: Sequence[BaseSchedulerNode],
        needs: Needs,
        capabilities: Capabilities,
        dtypes: Mapping[str, torch.dtype],
        log: list[FusionDecision],
    ) -> None:
        self.capabilities = capabilities
        self.dtypes = dtypes
        self.log = log
        self.at = [_Place(node, 1 << number) for number, node in enumerate(nodes)]
        self.places = {place.node.name: place for place in self.at}
        self.readers: dict[str, set[str]] = {}
        self._left = limit_of(FUSIONS)
        self._refused: set[tuple[int, int]] = set()
        self._common: dict[tuple[int, int], tuple[int, bool]] = {}
        self._connect(needs)

    def fuse(self) -> list[BaseSchedulerNode]:
        """Return the nodes that are left when nothing more can be fused."""
        while self._round():
            pass
        return [place.node for place in self._distinct()]

    # -- the graph of nodes ---------------------------------------------------------------------

    def _connect(self, needs: Needs) -> None:
        """Fill `before` and `after`."""
        direct = [
            [self.places[n.name] for n in needs[place.node] if n.name in self.places]
            for place in self.at
        ]
        for place, needed in zip(self.at, direct):
            for other in needed:
                place.before |= other.before | other.bits
        for place, needed in zip(reversed(self.at), reversed(direct)):
            for other in needed:
                other.after |= place.after | place.bits

    def _distinct(self) -> list[_Place]:
        return list(dict.fromkeys(self.at))

    def _places_in(self, bits: int) -> Iterator[_Place]:
        while bits:
            place = self.at[(bits & -bits).bit_length() - 1]
            yield place
            bits &= ~place.bits

    def _join(self, first: _Place, second: _Place) -> None:
        place = _Place(fuse(_kernel(first), _kernel(second)), first.bits | second.bits)
        place.before = (first.before | second.before) & ~place.bits
        place.after = (first.after | second.after) & ~place.bits
        for other in self._places_in(place.after):
            other.before |= place.before | place.bits
        for other in self._places_in(place.before):
            other.after |= place.after | place.bits
        for old in (*self._places_in(place.bits),):
            for member in old.node.members:
                self.places[member.name] = place
        for number in _numbers(place.bits):
            self.at[number] = place

    # -- rounds ---------------------------------------------------------------------------------

    def _round(self) -> bool:
        """Run one round of the greedy loop; return whether anything was fused."""
        scored = list(self._candidates())
        scored.sort(key=lambda item: item[0], reverse=True)
        changed = False
        for score, first_name, second_name in scored:
            first, second = self._ordered(self.places[first_name], self.places[second_name])
            if first is second or self._left == 0 or not self._is_legal(first, second):
                continue
            self._left = self._left and self._left - 1
            self._decide(first, second, score, None)
            self._join(first, second)
            changed = True
        return changed

    def _candidates(self) -> Iterator[tuple[Score, str, str]]:
        """Score the pairs of kernels that touch a common buffer and may be fused now.

        The scores are by the names of two of their buffers.
        """
        touching: dict[str, list[_Place]] = {}
        self._note_readers()
        for place in self._distinct():
            if isinstance(place.node, (SchedulerNode, FusedSchedulerNode)):
                for name in self._touched(place.node):
                    touching.setdefault(name, []).append(place)
        scores: dict[tuple[int, int], Score | None] = {}
        for places in touching.values():
            for i, first in enumerate(places):
                found = 0
                for second in islice(places, i + 1, i + 1 + _MOST_NEIGHBOURS):
                    pair = first.bits, second.bits
                    is_new = pair not in scores
                    score = scores[pair] = self._score(first, second) if is_new else scores[pair]
                    if score and is_new:
                        yield score, first.node.members[0].name, second.node.members[0].name
                    found += score is not None
                    if found == _ENOUGH_NEIGHBOURS:
                        break

    def _touched(self, node: KernelNode) -> frozenset[str]:
        """Return the buffers that a kernel touches, and its neighbours if siblings are fused."""
        if not self.capabilities.fuses_siblings:
            return node.touched_names
        return node.touched_names | self._sources(node) | self._targets(node)

    def _sources(self, node: BaseSchedulerNode) -> frozenset[str]:
        """Return the names of the kernels that compute the buffers that a node reads."""
        sources = (self.places[name].node for name in node.read_names if name in self.places)
        return frozenset(source.name for source in sources if source.members != [source])

    def _targets(self, node: BaseSchedulerNode) -> frozenset[str]:
        """Return the names of the generated kernels that read a buffer that a node computes."""
        return frozenset().union(*(self.readers.get(name, ()) for name in node.written_names))

    def _note_readers(self) -> None:
        self.readers = dict[str, set[str]]()
        for place in self._distinct() if self.capabilities.fuses_siblings else ():
            if _is_kernel(place.node):
                for name in place.node.read_names:
                    self.readers.setdefault(name, set()).add(place.node.name)

    def _score(self, first: _Place, second: _Place) -> Score | None:
        """Return the score of a pair that may be fused now."""
        first, second = self._ordered(first, second)
        if not self._is_legal(first, second):
            return None
        return score_of(_kernel(first), _kernel(second), self._shared(first, second)[0])

    def _is_legal(self, first: _Place, second: _Place) -> bool:
        if (first.bits, second.bits) in self._refused:
            return False
        stages.count("fusion_pairs")
        refusal = self._refusal(first, second)
        if refusal is not None:
            self._refused.add((first.bits, second.bits))
            self._refused.add((second.bits, first.bits))
            self._decide(first, second, None, refusal)
        return refusal is None

    def _refusal(self, first: _Place, second: _Place) -> Refusal | None:
        own = first.bits | second.bits
        if first.after & second.before & ~own or second.after & first.before & ~own:
            return Refusal("another node must run between them")
        a, b = _kernel(first), _kernel(second)
        refusal = can_fuse(a, b, self.capabilities)
        if refusal and refusal.is_of_loops and self.capabilities.reorders_loops:
            refusal = can_fuse(a, b, self.capabilities) if match_order(a, b) else refusal
        if refusal is None and not a.written_names & b.read_names:
            return self._refuse_horizontal(first, second)
        return refusal

    def _refuse_horizontal(self, first: _Place, second: _Place) -> Refusal | None:
        """Refuse to fuse two kernels that share inputs only, if that saves too little.

        It is worth it if they share all of an input, or if they are so small that a launch counts.
        """
        if not self.capabilities.fuses_horizontally:
            return Refusal("the code generator wants no horizontal fusion")
        a, b = _kernel(first), _kernel(second)
        if self._shared(first, second)[1] or self._are_siblings(a, b):
            return None
        return Refusal("they share no whole input")

    def _shared(self, first: _Place, second: _Place) -> tuple[int, bool]:
        """Return the bytes that both kernels move, and whether an access is of all elements."""
        pair = first.bits, second.bits
        if pair not in self._common:
            self._common[pair] = common_bytes(_kernel(first), _kernel(second), self.dtypes)
        return self._common[pair]

    def _are_siblings(self, first: KernelNode, second: KernelNode) -> bool:
        """Return whether two small kernels with equal loops share a producer or a consumer."""
        if not self.capabilities.fuses_siblings or first.group != second.group:
            return False
        elements = product(first.group)
        is_small = isinstance(elements, int) and elements <= SMALL_KERNEL
        return is_small and bool(
            self._sources(first) & self._sources(second)
            or self._targets(first) & self._targets(second)
        )

    def _ordered(self, first: _Place, second: _Place) -> tuple[_Place, _Place]:
        """Return the pair with the producer first, or else the earlier node."""
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


def _kernel(place: _Place) -> KernelNode:
    assert isinstance(place.node, (SchedulerNode, FusedSchedulerNode))
    return place.node


def _numbers(bits: int) -> Iterator[int]:
    """Yield the bits that are set."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low
