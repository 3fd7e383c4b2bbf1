"""Tensors that are not initialized: where PyTorch promises to fill them, with its values."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.testing import assert_close

import minitorch2
from minitorch2 import stages

DTYPES = [torch.float32, torch.bfloat16, torch.int32, torch.uint8, torch.bool, torch.complex64]


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True


def new(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        torch.empty(3, 4), torch.empty_like(x), x.new_empty(2), torch.empty_strided((3, 4), (1, 3)),
        torch.empty_permuted((2, 3), (1, 0)), x.new_empty_strided((2, 2), (1, 2)),
    )  # fmt: skip


def new_like(x: torch.Tensor) -> list[torch.Tensor]:
    return [torch.empty_like(x, dtype=dtype) for dtype in DTYPES]


@pytest.mark.parametrize("function", [new, new_like])
def test_new_memory_is_filled(deterministic: None, function: Any) -> None:
    """It was zero."""
    x = torch.zeros(3, 4)
    compiled = minitorch2.compile(function, fullgraph=True, dynamic=True)
    assert_close(compiled(x), function(x), equal_nan=True)


def test_the_promise_is_guarded(deterministic: None) -> None:
    compiled = minitorch2.compile(lambda x: torch.empty_like(x) + x, fullgraph=True)
    x = torch.zeros(4)
    with stages.collect() as log:
        assert compiled(x).isnan().all()
        torch.utils.deterministic.fill_uninitialized_memory = False
        compiled(x)
        torch.utils.deterministic.fill_uninitialized_memory = True
        assert compiled(x).isnan().all()
    assert log.counts["graphs"] == 2
