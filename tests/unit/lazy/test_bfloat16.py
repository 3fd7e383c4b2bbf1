"""An option runs regions in autocast: matrix products in bfloat16, losses in float32."""

import subprocess
import sys

import pytest
import torch

from minitorch2 import config, lazy
from minitorch2.testing import assert_same

PROGRAM = """
import torch, minitorch2
x = torch.rand(4, 4)
with minitorch2.lazily(eager_first=False):
    product, total = x @ x, torch.nn.functional.mse_loss(x @ x, x)
print(product.dtype, total.dtype)
"""


pytestmark = pytest.mark.usefixtures("empty_trie", "quick")


def train():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2))
    products, losses = [], []
    for _ in range(4):
        product = model(torch.rand(6, 4))
        loss = torch.nn.functional.cross_entropy(product, torch.randint(2, (6,)))
        loss.backward()
        products.append(product.detach())
        losses.append(loss.detach())
    return products, losses, [p.grad for p in model.parameters()]


def test_regions_are_as_eager_mode_in_autocast():
    with torch.autocast("cpu", torch.bfloat16):
        wanted = train()
    with config.patch(lazy_bf16=True), lazy.lazily():
        given = train()
    plain = [[lazy.to_eager(t) for t in tensors] for tensors in given]
    torch.testing.assert_close(plain, [*wanted], rtol=2e-2, atol=2e-2)
    products, losses, gradients = plain
    assert {t.dtype for t in products} == {torch.bfloat16}
    assert {t.dtype for t in (*losses, *gradients)} == {torch.float32}


def test_what_the_program_chooses_comes_first():
    x = torch.rand(4, 4)
    with config.patch(lazy_bf16=True), lazy.lazily(), torch.autocast("cpu", enabled=False):
        given = x @ x
    assert_same(lazy.to_eager(given), x @ x)
    with torch.autocast("cpu", torch.float16), config.patch(lazy_bf16=True), lazy.lazily():
        assert (x @ x).dtype is torch.float16


def test_a_variable_sets_it(monkeypatch):
    monkeypatch.setenv("MINITORCH2_LAZY_BF16", "1")
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert ran.stdout.split() == ["torch.bfloat16", "torch.float32"], ran.stderr
