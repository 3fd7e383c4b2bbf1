"""Scheduling looks at so many pairs of kernels as there are nodes, not at so many squared."""

import pytest
import torch

from minitorch2 import stages
from minitorch2.codegen.numba.target import NUMBA
from minitorch2.loopir.fusion_region import MOST_NODES, regions
from minitorch2.loopir.scheduler import Scheduler
from tests.unit.loopir.test_scheduler import lower


def fan(count):
    return lambda x: [x + i for i in range(count)]


def joined(count):
    return lambda x: torch.cat([x + i for i in range(count)])


def blocks(count):
    def program(x):
        for _ in range(count):
            x = x + torch.relu(x - x.mean(-1, keepdim=True))
        return x

    return program


def steps(program) -> int:
    """How many pairs of kernels are examined."""
    lowered = lower(program, torch.empty(8, 16))
    with stages.collect(texts=False) as log:
        Scheduler(lowered, NUMBA.capabilities()).run()
    return log.counts["fusion_pairs"]


@pytest.mark.parametrize("family", [fan, joined, blocks], ids=lambda f: f.__name__)
def test_the_pairs_examined_grow_with_the_graph(family):
    few, many = steps(family(80)), steps(family(320))
    assert 0 < many <= 5 * few


def test_more_kernels_than_fit_in_one_are_not_compared_loop_by_loop(monkeypatch):
    """A fan over one input took seconds beyond 64 kernels: the refusal for their number made the
    scheduler look for other loops."""
    asked = []
    monkeypatch.setattr(
        "minitorch2.loopir.fusion_region.match_order", lambda a, b: bool(asked.append((a, b)))
    )
    steps(fan(200))
    assert not asked


def test_large_graphs_are_fused_in_regions():
    lowered = lower(fan(MOST_NODES + 10), torch.empty(8))
    members = Scheduler(lowered, NUMBA.capabilities()).members
    parts = [*regions(members)]
    assert [node for part in parts for node in part] == members
    assert len(parts) == 2 and max(map(len, parts)) <= MOST_NODES
