"""Regression: kernels without elements were fused with others, whose loops then did not run."""

import torch

from minitorch2.loopir.lower_graph import lower_graph
from minitorch2.loopir.schedule import Capabilities, FusedSchedulerNode
from minitorch2.loopir.scheduler import schedule
from tests.unit.loopir.trace_aten import trace


def test_nodes_without_elements_are_not_fused():
    def program(x, empty, tall):
        return x * 2, empty.sum(1), tall + 1, tall.any(0)

    inputs = [torch.randn(1), torch.zeros(1, 0), torch.zeros(0, 3)]
    plan = schedule(lower_graph(trace(program, inputs)), Capabilities())
    assert not any(isinstance(node, FusedSchedulerNode) for node in plan.nodes)
