"""How many operators have rules, one each, and that what has none is named."""

import inspect

import pytest
import torch

from minitorch2 import stages
from minitorch2.autograd import DECOMPOSITIONS
from minitorch2.autograd.schemas import is_composite
from minitorch2.loopir.coverage import coverage
from minitorch2.loopir.lower_graph import lower_graph
from minitorch2.loopir.lowering import LOWERINGS
from tests.unit.loopir.trace_aten import trace


def test_three_hundred_operators():
    found = coverage()
    assert len({*found.loops, *(o._schema.name for o in DECOMPOSITIONS)}) >= 300
    assert len(found.library) >= 60


@pytest.mark.parametrize("operator", LOWERINGS, ids=str)
def test_an_operator_is_decomposed_or_lowered(operator: torch._ops.OpOverload):
    """A lowering beside a decomposition is reached only where the decomposition gives up."""
    rule = DECOMPOSITIONS.get(operator)
    assert rule is None or "NotImplemented" in inspect.unwrap(rule).__code__.co_names
    assert not is_composite(operator)


def test_a_fallback_is_counted_and_named():
    x = torch.randn(4)
    with stages.collect() as log:
        lower_graph(trace(lambda x: torch.special.i0(x) + x.histc().sum(), (x,)))
    assert log.counts["fallbacks"] == 2
    first, second = log.texts("fallback")
    assert "i0" in first
    assert second == "aten.histc.default: it has no lowering"
