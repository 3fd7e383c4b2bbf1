"""Whole graphs through `compile_graph(..., target=TRITON)`: wrapper, launches, library calls."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from minitorch2 import stages
from minitorch2.codegen.compile_graph import compile_graph
from minitorch2.codegen.triton import availability
from minitorch2.codegen.triton.target import TRITON
from minitorch2.errors import BackendError
from minitorch2.graph.node import SourceLine
from tests.unit.codegen.aten_graph import call_inputs, record
from tests.unit.codegen.triton.run_lowered import DEVICE


def compiled(
    program: Callable[..., Any], *inputs: torch.Tensor, dynamic: bool = False
) -> tuple[stages.StageLog, list[Any]]:
    """Compile, run twice, compare with eager; give the log and the results."""
    moved = [tensor.to(DEVICE) for tensor in inputs]
    gm = record(program, *moved, dynamic=dynamic)
    with stages.collect() as log:
        call = compile_graph(gm, (), target=TRITON)
    expected = program(*moved)
    for _ in range(2):
        arguments = call_inputs(gm, *moved)
        results = call(arguments)
        assert arguments == []
        for result, answer in zip(results, expected, strict=True):
            torch.testing.assert_close(result, answer)
            assert result.stride() == answer.stride()
    return log, results


def mlp(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    h = F.gelu(x @ w + b)
    return (h + 1).softmax(-1), h.sum()


@pytest.mark.parametrize("dynamic", [False, True])
def test_kernels_around_a_matmul(dynamic: bool) -> None:
    inputs = torch.randn(6, 4), torch.randn(4, 16), torch.randn(16)
    log, _ = compiled(mlp, *inputs, dynamic=dynamic)
    (wrapper,) = log.texts("wrapper.py")
    assert re.search(r"mm\(arg\d, arg\d\)", wrapper) and "args.clear()" in wrapper
    assert log.counts["fallbacks"] == 0


def test_equal_kernels_are_one_kernel() -> None:
    def twice(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor]:
        return ((((x @ w).sin() @ w).sin()),)

    log, _ = compiled(twice, torch.randn(8, 8), torch.randn(8, 8))
    assert log.counts["kernels"] == 2
    assert log.texts("wrapper.py")[0].count("@triton.jit") == 1


def test_a_dying_buffer_is_written_in_place() -> None:
    def chain(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor]:
        return ((x @ w).sin(),)

    log, _ = compiled(chain, torch.randn(8, 8), torch.randn(8, 8))
    assert "in_out_ptr0" in log.texts("wrapper.py")[0]


def test_a_scalar_tensor_on_the_cpu_goes_to_the_kernels_device() -> None:
    scale = torch.tensor(2.0)
    compiled(lambda x: (x * scale + 1,), torch.randn(5, 3))


def test_user_lines_with_quotes_survive_in_the_wrapper() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor]:
        return (x + 1,)

    gm = record(program, torch.randn(3).to(DEVICE))
    for node in gm.graph.nodes:
        if "source" in node.meta:
            node.meta["source"] = SourceLine("a.py", 1, "x['''] = \"\\n\"")
    x = torch.randn(3).to(DEVICE)
    assert torch.equal(compile_graph(gm, (), target=TRITON)([x])[0], x + 1)


def test_without_triton_one_sentence_says_what_is_missing(monkeypatch: Any) -> None:
    monkeypatch.setattr(availability, "_has_triton", lambda: False)
    reason = availability.why_unavailable(DEVICE)
    assert reason is not None and "Triton is not installed" in reason
    gm = record(lambda x: (x + 1,), torch.randn(3).to(DEVICE))
    with pytest.raises(BackendError, match="Triton is not installed"):
        compile_graph(gm, (), target=TRITON)


def test_without_a_gpu_one_sentence_says_what_is_missing(monkeypatch: Any) -> None:
    monkeypatch.setattr(availability, "is_interpreting", lambda: False)
    reason = availability.why_unavailable(torch.device("cpu"))
    assert reason is not None and "need a CUDA device" in reason
