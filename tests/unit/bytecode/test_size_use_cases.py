"""What sizes vary for in practice: each use case is compiled as often as it has to be, no more.

The use cases are those of section 5 of the PyTorch 2 paper: a batch size that adapts, sequences of
all lengths, results whose number only data will tell, and jagged data.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import minitorch2
from minitorch2 import stages
from minitorch2.testing import assert_same


class Compiled:
    """A module or function compiled by default, compared with eager PyTorch at each call."""

    def __init__(self, function: Any, backend: str, **settings: Any) -> None:
        self.function = function
        self.graphs = 0
        self.fast = minitorch2.compile(function, backend=backend, **settings)

    def __call__(self, *args: Any) -> int:
        """How many graphs were compiled so far."""
        with stages.collect() as log:
            result = self.fast(*args)
        assert_same(result, self.function(*args), 1e-5)
        self.graphs += log.counts["graphs"]
        return self.graphs


@pytest.fixture(params=["aot_eager", "numba"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_batch_size_that_adapts(backend: str) -> None:
    """Training halves the batch when memory is short, and doubles it later."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))
    fast = minitorch2.compile(model, backend=backend)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    with stages.collect() as log:
        for batch in (64, 32, 16, 8, 16, 48, 5):
            x, labels = torch.randn(batch, 6), torch.randint(0, 3, (batch,))
            loss = nn.functional.cross_entropy(fast(x), labels)
            expected = nn.functional.cross_entropy(model(x), labels)
            wanted = torch.autograd.grad(expected, list(model.parameters()))
            optimizer.zero_grad()
            loss.backward()
            for parameter, gradient in zip(model.parameters(), wanted, strict=True):
                assert_same(parameter.grad, gradient, 1e-5)
            optimizer.step()
            losses.append(log.counts["graphs"])
    assert losses == [1, 2, 2, 2, 2, 2, 2]


def test_sequences_of_all_lengths(backend: str) -> None:
    """A causal language model: masks and positions follow the length."""

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(50, 8), nn.Embedding(64, 8)
            self.qkv, self.head = nn.Linear(8, 24), nn.Linear(8, 50)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            length = tokens.shape[1]
            x = self.words(tokens) + self.places(torch.arange(length))
            q, k, v = self.qkv(x).chunk(3, -1)
            mask = torch.ones(length, length, dtype=torch.bool).triu(1)
            weights = (q @ k.transpose(1, 2) / 8**0.5).masked_fill(mask, -torch.inf)
            return self.head(weights.softmax(-1) @ v)

    torch.manual_seed(0)
    compiled = Compiled(Attention(), backend)
    lengths = [7, 12, 31, 5, 64, 2]
    assert [compiled(torch.randint(0, 50, (2, n))) for n in lengths] == [1, 2, 2, 2, 2, 2]
    assert compiled(torch.randint(0, 50, (2, 1))) == 3, "a length of 1 is compiled apart"


def boxes(scores: torch.Tensor, corners: torch.Tensor) -> Any:
    """Detection: the boxes with a good score, the best one first, and their areas."""
    good = scores > 0.5
    kept, order = corners[good], scores[good].argsort(descending=True)
    kept = kept[order]
    areas = (kept[:, 2:] - kept[:, :2]).clamp(min=0).prod(1)
    return kept, areas, kept.shape[0]


def test_how_many_boxes_only_data_will_tell(backend: str) -> None:
    compiled = Compiled(boxes, backend, fullgraph=True)
    for good in (3, 0, 1, 9):
        scores = torch.linspace(0.6, 0.9, 9) - 0.5 * (torch.arange(9) >= good)
        assert compiled(scores, torch.rand(9, 4)) == 1
    # Images have different numbers of candidates: that is a size like any other.
    assert [compiled(torch.rand(n), torch.rand(n, 4)) for n in (12, 20, 5)] == [2, 2, 2]


def jagged_softmax(values: torch.Tensor, lengths: torch.Tensor) -> Any:
    """The softmax of each row of a jagged array, and the rows' sums: rows lie one after another."""
    count = lengths.shape[0]
    row = torch.repeat_interleave(torch.arange(count), lengths)
    exponentials = (values - values.max()).exp()
    sums = torch.zeros(count).index_add(0, row, exponentials)
    return exponentials / sums[row], torch.zeros(count).index_add(0, row, values)


def test_jagged_data(backend: str) -> None:
    compiled = Compiled(jagged_softmax, backend, fullgraph=True)
    counts = []
    for lengths in ([2, 3, 1], [4, 0, 5], [1, 1, 1], [6, 2, 2, 9], [3, 3]):
        counts.append(compiled(torch.randn(sum(lengths)), torch.tensor(lengths)))
    assert counts == [1, 2, 2, 3, 3]


def test_padded_rows_of_jagged_data(backend: str) -> None:
    """Jagged rows become a matrix: how wide it is, only data will tell."""

    def padded(values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        width = lengths.max().item()
        torch._check(width >= 0)
        column = torch.arange(width)
        inside = column < lengths.unsqueeze(1)
        starts = (lengths.cumsum(0) - lengths).unsqueeze(1)
        place = (starts + column).clamp(max=values.shape[0] - 1)
        return torch.where(inside, values[place], 0.0) * 2

    compiled = Compiled(padded, backend, fullgraph=True)
    for lengths in ([2, 3, 1], [0, 6, 0], [1, 4, 1]):
        assert compiled(torch.randn(6), torch.tensor(lengths)) == 1
