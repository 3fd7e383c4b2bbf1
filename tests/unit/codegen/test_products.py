"""Products of matrices that a library computes faster in another form than the program's."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

import minitorch2
from minitorch2 import config, stages
from minitorch2.loopir.lowering import matmul

WORDS = 1003


class LanguageModel(nn.Module):
    """As many words as no row of 16 bytes can hold."""

    def __init__(self, bias):
        super().__init__()
        self.embedding, self.hidden = nn.Embedding(WORDS, 64), nn.Linear(64, 64)
        self.head = nn.Linear(64, WORDS, bias=bias)

    def forward(self, tokens):
        return self.head(F.gelu(self.hidden(self.embedding(tokens))))


def wrappers(log):
    return "\n".join(log.texts("wrapper.py"))


@pytest.fixture
def aligning(monkeypatch):
    """Gaps between rows, also on the CPU."""
    monkeypatch.setattr(matmul, "ALIGNING", {"cpu": (torch.float32,)})
    with config.patch(cache=False, verify=True, suppress_errors=False):
        yield


@pytest.mark.parametrize("bias", [False, True])
def test_rows_of_a_product_are_aligned_and_the_caller_sees_none_of_it(aligning, bias):
    model, tokens = LanguageModel(bias).eval(), torch.randint(WORDS, (4, 17))
    with stages.collect() as log, torch.no_grad():
        found, expected = minitorch2.compile(model)(tokens), model(tokens)
    assert_close(found, expected)
    assert found.stride() == expected.stride()
    assert f"({WORDS + 1}, 1)" in wrappers(log)


def test_gradients_that_products_read_are_aligned(aligning):
    model, tokens = LanguageModel(False), torch.randint(WORDS, (4, 17))

    def loss(tokens):
        return F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())

    with stages.collect() as log:
        compiled = minitorch2.compile(loss)
        found = torch.autograd.grad(compiled(tokens), [*model.parameters()])
    assert_close(found, torch.autograd.grad(loss(tokens), [*model.parameters()]))
    assert f"(1, {WORDS + 1})" in wrappers(log)  # the gradient, transposed


def test_products_that_sum_little_or_have_even_rows_stay(aligning):
    def products(a, b, c):
        return a @ b, a @ c

    a, b, c = torch.randn(8, 32), torch.randn(32, 9), torch.randn(32, 16)
    with stages.collect() as log:
        found = minitorch2.compile(products)(a, b, c)
    assert_close(found, products(a, b, c))
    assert "(12, 1)" not in wrappers(log) and "out=" not in wrappers(log)


def test_a_bias_is_added_by_the_reader_where_the_library_is_slow(monkeypatch):
    monkeypatch.setattr(matmul, "SLOW_BIAS", {"cpu": (torch.float32,)})
    model, x = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 4)), torch.randn(3, 8)
    with stages.collect() as log, config.patch(cache=False):
        assert_close(minitorch2.compile(model)(x), model(x))
    assert "= linear(" not in wrappers(log) and "= torch_mm(" in wrappers(log)
