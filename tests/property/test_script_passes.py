"""Passes over scripts: no caller can tell a graph from what a pass makes of it."""

import contextlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minitorch2 import config
from minitorch2.script.ir.types import TensorType
from minitorch2.script.passes import pipeline
from minitorch2.script.passes.batch_matmuls import batch_matmuls
from minitorch2.script.passes.create_differentiable_graphs import create_differentiable_graphs
from minitorch2.script.passes.fuse_graphs import fuse_graphs
from minitorch2.script.passes.insert_profiles import insert_profiles
from tests.property.script_graphs import (
    Evaluator,
    Record,
    assert_same,
    graphs,
    inputs,
)
from tests.unit.script.passes import clear_types, optimize

ALONE = list(
    dict.fromkeys(
        [
            *pipeline.REQUIRED,
            *pipeline.DERIVATIVE_PRESERVING,
            batch_matmuls,
            create_differentiable_graphs,
            fuse_graphs,
        ]
    )
)


@pytest.mark.parametrize("run", ALONE, ids=lambda run: run.name)
@given(graph=graphs())
@settings(max_examples=25)
def test_a_pass_alone_changes_nothing_that_a_caller_sees(run, graph):
    original = graph.copy()
    with config.patch(verify=True):
        run(graph)
    assert_same(original, graph)


@given(graph=graphs())
def test_all_passes_together_change_nothing_that_a_caller_sees(graph):
    original = graph.copy()
    with config.patch(verify=True):
        optimize(graph, needs_gradient=False)
    assert_same(original, graph)


def larger():
    """Matrices of other sizes than the profiled ones, so that guards fail."""
    x = torch.arange(-4.0, 5.0, dtype=torch.float64).reshape(3, 3)
    return [x, x.flip(0).contiguous(), 2]


@given(graph=graphs(), profiled=st.integers(0, 2))
def test_guards_hold_or_bail_out_to_the_rest_of_the_program(graph, profiled):
    clear_types(graph)
    original = graph.copy()
    with config.patch(verify=True):
        insert_profiles(graph, Record)
        for _ in range(profiled):
            with contextlib.suppress(RuntimeError, IndexError):
                Evaluator().run(graph, inputs())
        pipeline.guard(graph)
        pipeline.run_passes(pipeline.DERIVATIVE_PRESERVING, graph)
    assert_same(original, graph)
    assert_same(original, graph, larger)


class Wrong(Record):
    """A record that has seen what never comes."""

    type = TensorType(torch.int8, None, None, (7,))

    def __init__(self) -> None:
        pass


@given(graph=graphs(), place=st.integers(0, 30))
def test_a_guard_that_fails_anywhere_bails_out_to_the_rest_of_the_program(graph, place):
    clear_types(graph)
    original = graph.copy()
    insert_profiles(graph, Record)
    profiles = [node for node in graph.nodes() if node.kind == "prim::profile"]
    for node in profiles[place : place + 1]:
        node.attributes["record"] = Wrong()
    with config.patch(verify=True):
        pipeline.guard(graph)
    assert_same(original, graph)
