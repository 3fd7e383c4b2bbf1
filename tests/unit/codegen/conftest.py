"""Compile recorded programs and compare them with eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from minitorch2 import stages
from minitorch2.codegen.compile_graph import compile_graph
from tests.unit.codegen.aten_graph import call_inputs, record


def check_program(
    program: Callable[..., Any],
    *inputs: torch.Tensor,
    kernels: int | None = None,
    dynamic: bool = False,
    **tolerance: float,
) -> stages.StageLog:
    """Compiled results, strides and the number of kernels must be as expected; return the log."""
    gm = record(program, *inputs, dynamic=dynamic)
    with stages.collect() as log:
        call = compile_graph(gm)
    arguments = call_inputs(gm, *inputs)
    results = call(arguments)
    assert arguments == []  # boxed convention
    with torch.no_grad():
        expected = program(*inputs)
    expected = expected if isinstance(expected, (tuple, list)) else (expected,)
    for result, reference in zip(results, expected, strict=True):
        torch.testing.assert_close(result, reference, equal_nan=True, **tolerance)
        assert result.numel() < 2 or result.stride() == reference.stride()
    if kernels is not None:
        assert log.counts["kernels"] == kernels
    return log


@pytest.fixture
def check() -> Callable[..., stages.StageLog]:
    """`check(program, *inputs, kernels=1)`"""
    return check_program
