"""Several kernels in one launch of a GPU: which may be, what they compute, what they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minitorch2 import config, stages
from minitorch2.codegen.compile_graph import GraphCompiler, compile_graph
from minitorch2.codegen.triton.joined import BLOCK
from minitorch2.codegen.triton.target import TRITON
from minitorch2.loopir.interpret import interpret
from minitorch2.loopir.schedule import Capabilities
from minitorch2.testing.loop_bodies import LoopGraph, loop_graphs
from tests.unit.codegen.aten_graph import call_inputs, record
from tests.unit.codegen.triton.run_lowered import DEVICE, joined_texts, to_device


def check(program: Callable[..., Any], *inputs: torch.Tensor, launches: int) -> str:
    """As in eager, in so many launches; the text of the module."""
    moved = [to_device(x) for x in inputs]
    gm = record(program, *moved)
    with stages.collect() as log:
        call = compile_graph(gm, target=TRITON)
    results, expected = call(call_inputs(gm, *moved)), program(*moved)
    for result, reference in zip(results, expected, strict=True):
        torch.testing.assert_close(result, reference, equal_nan=True)
    assert log.counts["launches"] == launches
    (text,) = log.texts("wrapper.py")
    return text


def scaled(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tuple(torch.exp(x * 0.5) for x in tensors)


def test_equal_kernels_of_different_sizes_share_a_function() -> None:
    inputs = [torch.randn(n) for n in (1, 5, BLOCK.x, BLOCK.x + 1, 3 * BLOCK.x, 70)]
    text = check(scaled, *inputs, launches=1)
    assert text.count("def part") == 2, "of one element, and of several"
    assert text.count("tl.exp(") + text.count(".exp(") == 2


def test_kernels_of_different_kinds() -> None:
    def program(x: torch.Tensor, y: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.softmax(-1), y + 1, y.sum(0), i * 2, x[:, :3] > 0, y.flip(0)

    check(program, torch.randn(6, 40), torch.randn(9, 5), torch.arange(8), launches=1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.int32, torch.bool])
def test_dtypes_have_functions_of_their_own(dtype: torch.dtype) -> None:
    text = check(
        lambda *tensors: tuple(x + x for x in tensors),
        torch.ones(5, dtype=dtype), torch.ones(6, dtype=dtype), torch.randn(7), torch.randn(8),
        launches=1,
    )  # fmt: skip
    assert text.count("def part") == 2


def test_what_cannot_share_a_launch_has_its_own() -> None:
    def program(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x * 2, y * 2, z.sum(-1)

    with stages.collect() as log:
        check(program, torch.randn(8), torch.randn(9), torch.randn(1, 5000), launches=2)
    assert "its blocks take" in log.texts("schedule.txt")[0]


def test_sizes_that_are_not_known() -> None:
    gm = record(scaled, *(to_device(torch.randn(n)) for n in (5, 6)), dynamic=True)
    with stages.collect() as log:
        compile_graph(gm, target=TRITON)
    assert log.counts["launches"] == 2
    assert "its programs are not known" in log.texts("schedule.txt")[0]


def test_steps_that_are_not_known() -> None:
    """Columns have known sizes; the way from one element to the next varies."""
    check_varying(lambda x: x.select(1, 0).narrow(0, 0, 3).exp(), torch.randn(7, 5))


def test_indices_into_what_has_no_known_size() -> None:
    check_varying(lambda x: x[to_device(torch.tensor([0, 3, 1]))] * 2, torch.randn(7))


def check_varying(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> None:
    """Two kernels of three elements that read symbols have a launch each."""
    inputs = [to_device(x), to_device(torch.cat([x, x]))]

    def program(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(map(function, tensors))

    gm = record(program, *inputs, dynamic=True)
    with stages.collect() as log:
        call = compile_graph(gm, target=TRITON)
    for result, expected in zip(call(call_inputs(gm, *inputs)), program(*inputs), strict=True):
        torch.testing.assert_close(result, expected)
    assert log.counts["launches"] == 2
    assert "it reads numbers that vary" in log.texts("schedule.txt")[0]


def test_an_index_out_of_range_in_one_of_them() -> None:
    def program(x: torch.Tensor, i: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x[i], y * 2, y[:3] * 2

    (text,) = joined_texts(program, torch.randn(5), torch.tensor([0, 4]), torch.randn(9))
    assert "checks_indices=True" in text


def test_writes_in_place() -> None:
    def program(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple((x @ x).exp() for x in tensors)

    text = check(program, torch.randn(4, 4), torch.randn(3, 3), launches=1)
    assert "in_out_ptr0_0 = ptr0" in text and text.count("# in place") == 2


def test_the_switch() -> None:
    with config.patch(join_launches=False):
        check(scaled, torch.randn(5), torch.randn(6), launches=2)


UNFUSED = Capabilities(max_fusion_size=1, joins=8, recomputes_rows=True)


@settings(max_examples=6)
@given(loop_graphs(exact=True, device=DEVICE), st.booleans())
def test_random_loops_agree_with_the_numpy_interpreter(example: LoopGraph, fused: bool) -> None:
    expected = interpret(example.graph, example.inputs)
    capabilities = None if fused else UNFUSED
    call = GraphCompiler(TRITON, capabilities).compile(example.graph).call
    for result, answer in zip(call([*map(to_device, example.inputs)]), expected, strict=True):
        torch.testing.assert_close(result.cpu(), answer, rtol=0.0, atol=0.0, equal_nan=True)
