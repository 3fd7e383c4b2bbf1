"""Embedding bags of equal size are loops: no library's function is called, forward and backward."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import minitorch2
from minitorch2 import stages

SIZES = ((3, 5), (4, 5), (4, 6), (1, 1))


def trained(bags, x):
    bags.zero_grad()
    result = bags(x)
    result.square().sum().backward()
    return result.detach(), bags.weight.grad


@pytest.mark.parametrize("backend", ["numba", "triton"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("mode", ["mean", "sum"])
def test_bags_of_equal_size_are_loops(mode, dynamic, backend):
    torch.manual_seed(0)
    bags = nn.EmbeddingBag(10, 4, mode=mode).double()
    fast = minitorch2.compile(bags, dynamic=dynamic, fullgraph=True, backend=backend)
    with stages.collect() as log:
        for size in SIZES:
            x = torch.randint(0, 10, size)
            expected, found = trained(bags, x), trained(fast, x)
            torch.testing.assert_close(found, expected)
    assert not log.counts["fallbacks"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_rows(dtype):
    bags = nn.EmbeddingBag(10, 8).to(dtype)
    x = torch.randint(0, 10, (4, 7))
    torch.testing.assert_close(minitorch2.compile(bags)(x), bags(x))


def test_weights_of_samples_have_gradients():
    w, p = torch.randn(9, 4, dtype=torch.float64), torch.rand(3, 5, dtype=torch.float64)
    x = torch.randint(0, 9, (3, 5))

    def program(x, w, p):
        return F.embedding_bag(x, w, mode="sum", per_sample_weights=p)

    results = []
    for function in (program, minitorch2.compile(program, fullgraph=True)):
        own = [each.clone().requires_grad_() for each in (w, p)]
        function(x, *own).square().sum().backward()
        results.append([each.grad for each in own])
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("wrong", [11, -1])
def test_a_wrong_number_of_a_row_is_eagers_error(wrong):
    bags = nn.EmbeddingBag(10, 4)
    x = torch.tensor([[1, wrong]])
    with pytest.raises(RuntimeError) as expected:
        bags(x)
    with pytest.raises(RuntimeError) as found:
        minitorch2.compile(bags)(x)
    assert str(found.value) == str(expected.value) and found.type is expected.type


LEFT = {
    "offsets": lambda x, w: F.embedding_bag(x.reshape(-1), w, torch.tensor([0, 4, 4])),
    "maxima": lambda x, w: F.embedding_bag(x, w, mode="max"),
    "wide rows": lambda x, w: F.embedding_bag(x, w.repeat(1, 9)),
    "padding": lambda x, w: F.embedding_bag(x, w, padding_idx=2),
}


@pytest.mark.parametrize("name", LEFT)
def test_other_bags_are_the_librarys(name):
    x, w = torch.randint(0, 9, (3, 5)), torch.randn(9, 4)
    with stages.collect() as log:
        found = minitorch2.compile(LEFT[name], fullgraph=True)(x, w)
    torch.testing.assert_close(found, LEFT[name](x, w))
    assert log.counts["fallbacks"]
