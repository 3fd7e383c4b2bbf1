"""By default random operators give eager's numbers, however their tensors lie in memory."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import minitorch2
from tests.unit.autograd.test_randomness import DRAWN

LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "contiguous": lambda: torch.zeros(6, 5),
    "transposed": lambda: torch.zeros(5, 6).t(),
    "with holes": lambda: torch.zeros(6, 10)[:, ::2],
    "expanded": lambda: torch.zeros(6, 1).expand(6, 5),
    "rows apart": lambda: torch.zeros(6, 7)[:, 1:6],
}


def assert_same_numbers(program: Callable[[Tensor], Tensor], x: Tensor) -> None:
    results = []
    for function in (program, minitorch2.compile(program, fullgraph=True)):
        torch.manual_seed(5)
        results.append((function(x), torch.rand(())))  # as many numbers are drawn, too
    torch.testing.assert_close(*results, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", DRAWN)
def test_numbers_are_eagers(name: str, layout: str) -> None:
    assert_same_numbers(DRAWN[name], LAYOUTS[layout]())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_in_place_dropout_is_eagers(layout: str) -> None:
    assert_same_numbers(lambda x: F.dropout(x.clone() + 1, 0.4, inplace=True), LAYOUTS[layout]())


def test_channels_last() -> None:
    x = torch.zeros(2, 5, 3, 4).to(memory_format=torch.channels_last)
    assert_same_numbers(lambda x: F.dropout(x + 1), x)


def test_dropout_behind_attention_with_the_batch_first() -> None:
    """Its result is transposed: numbers in the order of rows would be others."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.3, batch_first=True)
    assert_same_numbers(layer, torch.randn(3, 5, 16))
