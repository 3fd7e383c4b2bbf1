"""Products of matrices that a library computes faster in another form than the program's."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

import minitorch2
from minitorch2 import config, stages
from minitorch2.loopir.lowering import matmul, odd_products

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
    """Rows of products are aligned also on the CPU; small ones are not padded."""
    monkeypatch.setattr(odd_products, "ALIGNING", {"cpu": (torch.float32,)})
    with config.patch(cache=False, verify=True, suppress_errors=False):
        yield


@pytest.fixture
def padding(aligning, monkeypatch):
    """Small products are padded, too."""
    monkeypatch.setattr(odd_products, "LEAST_WORK", 0)


@pytest.mark.parametrize("bias", [False, True])
def test_products_with_odd_sizes_are_padded_and_the_caller_sees_none_of_it(padding, bias):
    model, tokens = LanguageModel(bias).eval(), torch.randint(WORDS, (4, 17))
    with stages.collect() as log, torch.no_grad():
        found, expected = minitorch2.compile(model)(tokens), model(tokens)
    assert_close(found, expected)
    assert found.stride() == expected.stride()
    weight = f"({WORDS + 1}, 64)" if bias else f"(64, {WORDS + 1}), (1, 64)"
    assert weight in wrappers(log)


@pytest.mark.parametrize("bias", [False, True])
def test_gradients_of_padded_products(padding, bias):
    model, tokens = LanguageModel(bias), torch.randint(WORDS, (4, 17))

    def loss(tokens):
        return F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())

    found = torch.autograd.grad(minitorch2.compile(loss)(tokens), [*model.parameters()])
    assert_close(found, torch.autograd.grad(loss(tokens), [*model.parameters()]))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("sizes", [(5, 8, 7), (8, 9, 12), (3, 9, 5), (4, 8, 4), (1, 7, 1)])
def test_any_odd_size_is_padded(padding, sizes, transposed):
    rows, inner, columns = sizes
    a, b = torch.randn(rows, inner), torch.randn(inner, columns)
    b = b.t().contiguous().t() if transposed else b
    wide, bias = torch.randn(rows, 2 * inner)[:, ::2], torch.randn(columns)

    def products(a, b, wide, bias):
        return a @ b, wide @ b, torch.addmm(bias, a, b), (a + 1) @ b + 1

    assert_close(minitorch2.compile(products)(a, b, wide, bias), products(a, b, wide, bias))


def test_gradients_that_products_read_are_aligned(aligning):
    model, tokens = LanguageModel(False), torch.randint(WORDS, (4, 17))

    def loss(tokens):
        return F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())

    with stages.collect() as log:
        compiled = minitorch2.compile(loss)
        found = torch.autograd.grad(compiled(tokens), [*model.parameters()])
    assert_close(found, torch.autograd.grad(loss(tokens), [*model.parameters()]))
    assert f"(1, {WORDS + 1})" in wrappers(log)  # the gradient, transposed


def test_operands_that_have_their_layout_keep_it(aligning):
    def products(a, b, c):
        return a @ b, (a + 1) @ c

    a, b, c = torch.randn(8, 32), torch.randn(32, 9), torch.randn(32, 16)
    with stages.collect() as log:
        found = minitorch2.compile(products)(a, b, c)
    assert_close(found, products(a, b, c))
    assert "(12, 1)" not in wrappers(log)


def test_a_bias_is_added_by_the_reader_where_the_library_is_slow(monkeypatch):
    monkeypatch.setattr(matmul, "SLOW_BIAS", {"cpu": (torch.float32,)})
    model, x = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 4)), torch.randn(3, 8)
    with stages.collect() as log, config.patch(cache=False):
        assert_close(minitorch2.compile(model)(x), model(x))
    assert "= linear(" not in wrappers(log) and "= torch_mm(" in wrappers(log)
