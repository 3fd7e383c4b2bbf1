"""einops: no break, whether its functions were called before or not."""

import subprocess
import sys

import pytest
import torch

import minitorch2
from minitorch2 import stages

einops = pytest.importorskip("einops")
layers = pytest.importorskip("einops.layers.torch")  # a part of einops that a tensor loads late

# In a process of its own: einops finds its backend, and parses a pattern, on the first call.
COLD = """
import torch, minitorch2, einops, einops.layers.torch
from minitorch2 import stages

def f(x, w):
    a = einops.rearrange(x, "b (h w) c -> b c h w", h=2)
    b = einops.reduce(a, "b c h w -> b c", "mean")
    c = einops.repeat(b, "b c -> b c k", k=3)
    return c.sum(-1), einops.einsum(x, w, "b t c, c d -> b t d")

x, w = torch.randn(2, 6, 4), torch.randn(4, 5)
with stages.collect() as log:
    given = minitorch2.compile(f, fullgraph=True, backend="eager")(x, w)
torch.testing.assert_close(given, f(x, w))
print(log.counts["graphs"], log.counts["graph_breaks"])
"""


def test_the_first_call_of_einops_is_one_graph():
    done = subprocess.run([sys.executable, "-c", COLD], capture_output=True, text=True)
    assert done.stdout.split() == ["1", "0"], done.stderr


def test_pack_and_unpack():
    def f(x, y):
        packed, shapes = einops.pack([x, y], "b * c")
        return einops.unpack(packed * 2, shapes, "b * c")

    x, y = torch.randn(2, 3, 4), torch.randn(2, 5, 6, 4)
    fast = minitorch2.compile(f, fullgraph=True)
    torch.testing.assert_close(fast(x, y), f(x, y))


def test_layers_take_batches_of_any_size():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        layers.Rearrange("b c (h p) (w q) -> b (h w) (c p q)", p=2, q=2),
        layers.EinMix("b t c -> b t d", "c d", bias_shape="d", c=12, d=8),
        layers.Reduce("b t d -> b d", "mean"),
    )
    with stages.collect() as log:
        fast = minitorch2.compile(model, fullgraph=True)
        for batch in (2, 3, 5):
            x = torch.randn(batch, 3, 8, 6)
            torch.testing.assert_close(fast(x), model(x))
            fast(x).sum().backward()
    assert log.counts["graphs"] == 2  # one of fixed size, one for all
