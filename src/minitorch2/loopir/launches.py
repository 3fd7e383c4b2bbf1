"""Launches of several small kernels that do not depend on each other.

A launch takes as long as a small kernel, and an optimizer, or a list of tensors, has many small
kernels. Fusions come first, since they save memory traffic, too. Then kernels are taken from the
last to the first. Each joins the last launch that still comes before all readers of the kernel's
results. Kernels are only delayed, never moved forward, so a check or a write to an argument stays
before the kernels that it precedes in the program. The kernels of a launch run in any order, or at
the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from minitorch2 import config, stages
from minitorch2.logs import get_logger
from minitorch2.loopir.expressions import Expr, product
from minitorch2.loopir.lowered_graph import LoweredGraph
from minitorch2.loopir.memory_plan import may_raise_at, plan_memory
from minitorch2.loopir.order import WORTH, peak_of
from minitorch2.loopir.schedule import (
    BaseSchedulerNode,
    Capabilities,
    JoinedSchedulerNode,
    KernelNode,
    LaunchDecision,
    Refusal,
    Schedule,
    bodies,
    kernels_in,
)

_LOGGER = get_logger(__name__)
SLACK = 1 << 20
"""Bytes by which intermediates may peak higher than before."""

_ARGUMENTS = "the arguments"
Refuse = Callable[[KernelNode], Refusal | None]
"""Why a code generator cannot put a kernel into a launch with others, or None if it can."""


def join_launches(
    schedule: Schedule, lowered: LoweredGraph, capabilities: Capabilities, refuse: Refuse
) -> Schedule:
    """Return the schedule with small kernels joined, as far as the code generator can do that."""
    if config.current().join_launches and capabilities.joins > 1:
        schedule = _Joiner(schedule, lowered, capabilities, refuse).run()
    stages.count("launches", sum(bool(kernels_in(node)) for node in schedule.nodes))
    return schedule


@dataclass
class _Launch:
    """A launch being collected, or a node that is not a kernel; `place` counts from the end."""

    place: int
    nodes: list[BaseSchedulerNode] = field(default_factory=list)

    def node(self) -> BaseSchedulerNode:
        """Return the node for the schedule: the kernels joined, or the single node."""
        kernels = [kernel for node in self.nodes for kernel in kernels_in(node)]
        return JoinedSchedulerNode(kernels) if len(kernels) > 1 else self.nodes[0]


class _Joiner:
    def __init__(
        self, schedule: Schedule, lowered: LoweredGraph, capabilities: Capabilities, refuse: Refuse
    ) -> None:
        self.schedule = schedule
        self.lowered = lowered
        self.capabilities = capabilities
        self.refuse = refuse
        self.rewritten = lowered.rewritten
        self.alone: dict[BaseSchedulerNode, bool] = {}
        self.log: list[LaunchDecision] = []

    def run(self) -> Schedule:
        """Return a new schedule, or the old one if nothing can be joined."""
        nodes = self._join()
        while refused := [*self._refused(nodes)]:
            for launch, refusal in refused:
                self.alone |= dict.fromkeys(launch.kernels, True)
                self._note(launch.kernels, refusal.reason)
            nodes = self._join()
        for node in nodes:
            if isinstance(node, JoinedSchedulerNode):
                sizes = ", ".join(str(_elements(kernel)) for kernel in node.kernels)
                self._note(node.kernels, f"one launch, for {sizes} elements")
        if len(nodes) == len(self.schedule.nodes):
            return replace(self.schedule, launches=self.log)
        new = Schedule(nodes, log=self.schedule.log, launches=self.log)
        return plan_memory(new, self.lowered, self.capabilities)

    def _refused(
        self, nodes: Sequence[BaseSchedulerNode]
    ) -> Iterator[tuple[JoinedSchedulerNode, Refusal]]:
        """Yield the launches to take apart: small ones, and the largest if memory is short."""
        launches = [node for node in nodes if isinstance(node, JoinedSchedulerNode)]
        for node in launches:
            if len(node.kernels) < self.capabilities.fewest_joined:
                yield node, Refusal(f"with {len(node.kernels)} kernels a launch saves too little")
        before, after = (peak_of(some, self.lowered) for some in (self.schedule.nodes, nodes))
        if after * WORTH > before and after - before > SLACK:
            why = f"intermediates would peak at {after} bytes, at {before} if launched alone"
            yield max(launches, key=lambda node: peak_of([node], self.lowered)), Refusal(why)

    def _join(self) -> list[BaseSchedulerNode]:
        """Return the nodes in order, each kernel in the launch that it has joined."""
        launches: list[_Launch] = []  # the last one first
        read_at: dict[str, int] = {}  # where each buffer is read for the first time
        for node in reversed(self.schedule.nodes):
            launch = _Launch(len(launches))
            if not self._is_alone(node):
                late = {_ARGUMENTS} if may_raise_at(node) else set()
                reader = max((read_at.get(n, -1) for n in node.written_names | late), default=-1)
                before = launches[reader + 1 :]
                launch = next((one for one in before if self._fits(node, one)), launch)
            if launch.place == len(launches):
                launches.append(launch)
            launch.nodes.insert(0, node)
            writes = {_ARGUMENTS} if node.written_names & self.rewritten.keys() else set()
            read_at |= {n: max(launch.place, read_at.get(n, -1)) for n in node.read_names | writes}
        return [launch.node() for launch in reversed(launches)]

    def _is_alone(self, node: BaseSchedulerNode) -> bool:
        """Return whether a node cannot share a launch, or launches nothing."""
        if node not in self.alone:
            (kernel,) = kernels_in(node) or (None,)
            refusal = kernel and (self._refuse_size(kernel) or self.refuse(kernel))
            self.alone[node] = kernel is None or refusal is not None
            if kernel and refusal:
                self._note((kernel,), refusal.reason)
        return self.alone[node]

    def _note(self, kernels: Sequence[KernelNode], reason: str) -> None:
        decision = LaunchDecision(tuple(kernel.name for kernel in kernels), reason)
        self.log.append(decision)
        _LOGGER.debug("%s", decision)

    def _refuse_size(self, kernel: KernelNode) -> Refusal | None:
        elements = _elements(kernel)
        if isinstance(elements, int) and elements > self.capabilities.join_elements:
            return Refusal(f"{elements} elements: its launch counts for little")
        return Refusal("no elements") if elements == 0 else None

    def _fits(self, node: BaseSchedulerNode, launch: _Launch) -> bool:
        """Return whether a launch has room for one more kernel of this kind."""
        others = launch.nodes
        pointers = sum(len(one.read_names | one.written_names) for one in (*others, node))
        return (
            not self.alone[others[0]]
            and _device(node) == _device(others[0])
            and len(others) < self.capabilities.joins
            and pointers <= self.capabilities.max_pointers
            and not any(self._is_in_the_way(a, b) for one in others
                        for a, b in ((one, node), (node, one)))
        )  # fmt: skip

    def _is_in_the_way(self, reader: BaseSchedulerNode, writer: BaseSchedulerNode) -> bool:
        """Return whether `reader` reads an argument in whose memory `writer` could compute."""
        written = writer.written_names & self.rewritten.keys()
        return any(self.rewritten[name].name in reader.read_names for name in written)


def _device(node: BaseSchedulerNode) -> object:
    return bodies(kernels_in(node)[0])[0].buffer.device


def _elements(node: BaseSchedulerNode) -> Expr:
    return product([product(kernel.group) for kernel in kernels_in(node)])
