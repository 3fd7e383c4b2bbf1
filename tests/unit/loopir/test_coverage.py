"""How many operators have lowerings, and that what has none is named."""

import torch

from minitorch2 import stages
from minitorch2.loopir.coverage import coverage
from minitorch2.loopir.lower_graph import lower_graph
from tests.unit.loopir.trace_aten import trace


def test_three_hundred_operators():
    found = coverage()
    assert len(found.loops) >= 260
    assert len(found.loops) + len(found.library) >= 340


def test_a_fallback_is_counted_and_named():
    x = torch.randn(4)
    with stages.collect() as log:
        lower_graph(trace(lambda x: torch.special.i0(x) + x.histc().sum(), (x,)))
    assert log.counts["fallbacks"] == 2
    first, second = log.texts("fallback")
    assert "i0" in first
    assert second == "aten.histc.default: it has no lowering"
