"""From buffers to a schedule: the greedy fusion loop and the order of kernels.

    1. every buffer becomes a node; a read of a buffer is an edge from its node
    2. pairs of nodes are fused, best score first, until nothing changes (`fusion_region`)
    3. kernels in an order that respects the edges; loops ordered by vote and merged
    4. memory: which buffers vanish, when each dies, who takes over whose memory

This is the algorithm of the PyTorch 2 paper, section 4.4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from minitorch2 import config, stages
from minitorch2.loopir.buffers import Buffer, ComputedBuffer, ExternKernel, MultiOutput
from minitorch2.loopir.fusion_region import Region, regions
from minitorch2.loopir.loop_order import settle_loops
from minitorch2.loopir.lower_graph import LoweredGraph
from minitorch2.loopir.memory_plan import plan_memory
from minitorch2.loopir.order import as_in_program, direct_needs, needs_between, order_nodes
from minitorch2.loopir.schedule import (
    BaseSchedulerNode,
    Capabilities,
    ExternKernelSchedulerNode,
    FusedSchedulerNode,
    FusionDecision,
    NopKernelSchedulerNode,
    Schedule,
    SchedulerNode,
)


def schedule(lowered: LoweredGraph, capabilities: Capabilities) -> Schedule:
    """Schedule a lowered graph for a code generator."""
    with stages.phase("schedule"):
        return Scheduler(lowered, capabilities).run()


def allowed(capabilities: Capabilities) -> Capabilities:
    """Return the capabilities that the options leave in force."""
    options = config.current()
    return replace(
        capabilities,
        max_fusion_size=capabilities.max_fusion_size if options.fusion else 1,
        reorders_loops=capabilities.reorders_loops and options.reorder_loops,
    )


def create_node(buffer: Buffer, order: int) -> BaseSchedulerNode:
    """Return the node of a buffer."""
    if isinstance(buffer, ComputedBuffer):
        return SchedulerNode(buffer, order)
    if isinstance(buffer, ExternKernel):
        return ExternKernelSchedulerNode(buffer, order)
    assert isinstance(buffer, MultiOutput)
    return NopKernelSchedulerNode(buffer, order)


class Scheduler:
    """One scheduling."""

    def __init__(self, lowered: LoweredGraph, capabilities: Capabilities) -> None:
        self.lowered = lowered
        self.capabilities = allowed(capabilities)
        self.log: list[FusionDecision] = []
        self.dtypes = dtypes_of(lowered)
        self.members = [create_node(b, order) for order, b in enumerate(lowered.buffers)]
        self.needs = direct_needs(self.members)

    def run(self) -> Schedule:
        """Run all steps."""
        before = sum(isinstance(node, SchedulerNode) for node in self.members)
        stages.count("kernels_before_fusion", before)
        needs = needs_between([*self._fused()], self.needs)
        nodes, ordered = order_nodes(as_in_program(needs), needs, self.lowered)
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

    def _fused(self) -> Iterator[BaseSchedulerNode]:
        for nodes in regions(self.members):
            region = Region(nodes, self.needs, self.capabilities, self.dtypes, self.log)
            yield from region.fuse()

    def _record(self, decisions: list[object]) -> None:
        """Everything that was decided about the graph, with reasons and numbers."""
        if stages.wanted("decisions.txt"):
            stages.record("decisions.txt", "\n".join(map(str, decisions)))


def dtypes_of(lowered: LoweredGraph) -> dict[str, torch.dtype]:
    """Return the dtype of every buffer by name."""
    return {name: buffer.dtype for name, buffer in lowered.by_name().items()}
