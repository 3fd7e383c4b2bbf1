"""Random loop bodies: Halide kernels against the NumPy interpreter of the loop IR."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minitorch2 import stages
from minitorch2.codegen.compile_graph import GraphCompiler
from minitorch2.loopir.interpret import interpret
from minitorch2.loopir.schedule import Capabilities
from minitorch2.testing.loop_bodies import LoopGraph, loop_graphs

pytest.importorskip("halide")
from minitorch2.codegen.halide.target import HALIDE

FUSIONS = [
    HALIDE.capabilities(),
    Capabilities(fuses_reduction_broadcast_reduction=False, fuses_horizontally=False),
    Capabilities(max_fusion_size=1),
]


def compare(example: LoopGraph, capabilities: Capabilities, tolerance: float) -> None:
    expected = interpret(example.graph, example.inputs)
    with stages.collect(texts=False) as log:
        call = GraphCompiler(HALIDE, capabilities).compile(example.graph).call
    assert not log.counts["halide_fallbacks"]
    for result, answer in zip(call(list(example.inputs)), expected, strict=True):
        torch.testing.assert_close(result, answer, equal_nan=True, rtol=tolerance, atol=tolerance)


@settings(max_examples=20, deadline=None)
@given(loop_graphs(exact=True), st.sampled_from(FUSIONS))
def test_kernels_give_the_bits_of_the_numpy_interpreter(example: LoopGraph, capabilities) -> None:
    compare(example, capabilities, 0.0)


@settings(max_examples=20, deadline=None)
@given(loop_graphs(), st.sampled_from(FUSIONS))
def test_kernels_agree_with_the_numpy_interpreter(example: LoopGraph, capabilities) -> None:
    compare(example, capabilities, 1e-4)
