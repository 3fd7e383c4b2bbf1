"""Tensors made of lists in which numbers vary, or tensors of no dimension stand."""

import pytest
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.testing import assert_matches_eager

PROGRAMS = [
    lambda x: x + torch.tensor([x.shape[0], 2]).sum(),
    lambda x: torch.tensor([x.sum().item(), 2.0]),
    lambda x: torch.tensor([x.sum(), x.mean().double()]),
    lambda x: torch.tensor([[x.sum(), 2], [3, x.shape[0]]], requires_grad=False),
    lambda x: (torch.as_tensor([x.shape[0]]), torch.tensor(x.shape), torch.tensor(x.shape[0])),
    lambda x: torch.tensor([x.shape[0] / 2, True]) + torch.tensor([x.shape[0]], dtype=torch.half),
    lambda x: (torch.LongTensor([x.shape[0]]), x.new_tensor([x.shape[0]])),
]


@pytest.mark.parametrize("function", PROGRAMS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_one_graph(function, dynamic):
    with stages.collect() as log:
        fast = minitorch2.compile(function, backend="eager", fullgraph=True, dynamic=dynamic)
        for rows in (3, 5, 6):
            assert_matches_eager(function, torch.randn(rows, 2), calls=1, compile=lambda _: fast)
    assert log.counts["graphs"] <= (1 if dynamic else 2)
