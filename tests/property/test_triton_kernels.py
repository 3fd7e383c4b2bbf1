"""Random loop bodies: Triton kernels against the NumPy interpreter of the loop IR."""

from __future__ import annotations

from unittest import mock

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minitorch2.codegen.triton import domain
from minitorch2.codegen.triton.blocks import Blocks
from minitorch2.loopir.interpret import interpret
from minitorch2.testing.loop_bodies import LoopGraph, loop_graphs
from tests.unit.codegen.triton.run_lowered import DEVICE, Kernels, to_device


def compare(example: LoopGraph, *, exact: bool) -> None:
    expected = interpret(example.graph, example.inputs)
    moved = [to_device(tensor) for tensor in example.inputs]
    tolerance = {"rtol": 0.0, "atol": 0.0} if exact else {"rtol": 1e-4, "atol": 1e-4}
    for result, answer in zip(Kernels(example.graph).run(moved), expected, strict=True):
        torch.testing.assert_close(result.cpu(), answer, equal_nan=True, **tolerance)


@settings(max_examples=10)
@given(loop_graphs(exact=True, device=DEVICE))
def test_kernels_give_the_bits_of_the_numpy_interpreter(example: LoopGraph) -> None:
    compare(example, exact=True)


@settings(max_examples=10)
@given(loop_graphs(device=DEVICE))
def test_kernels_agree_with_the_numpy_interpreter(example: LoopGraph) -> None:
    compare(example, exact=False)


@settings(max_examples=10)
@given(
    loop_graphs(exact=True, device=DEVICE),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([2, 4]),
    st.booleans(),
)
def test_loops_over_small_blocks_give_the_same_bits(
    example: LoopGraph, x: int, r: int, is_folded: bool
) -> None:
    blocks = Blocks(x, 1, r=r, fold=2 if is_folded else 1)
    with mock.patch.object(domain, "reduction_blocks", lambda *_: blocks):
        compare(example, exact=True)
