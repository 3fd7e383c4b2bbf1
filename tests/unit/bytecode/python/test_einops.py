"""einops: functions with caches inside are captured, before and after their caches are filled."""

import pytest
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.testing.assertions import assert_matches_eager

einops = pytest.importorskip("einops")
layers = pytest.importorskip("einops.layers.torch")

X = torch.arange(24.0).reshape(4, 6)

SPLIT = torch.nn.Sequential(
    layers.Rearrange("a (b c) -> a b c", c=2), layers.Reduce("a b c -> a c", "mean")
)

PROGRAMS = [
    lambda x: einops.rearrange(x, "a (b c) -> c (a b)", c=2),
    lambda x: einops.rearrange([x, x + 1], "k a b -> a (k b)"),
    lambda x: (einops.reduce(x, "a b -> b", "sum"), einops.reduce(x, "a (b c) -> b", "max", c=3)),
    lambda x: einops.repeat(x, "a b -> (k a) b c", k=2, c=3),
    lambda x: einops.einsum(x, x, "a b, c b -> a c"),
    lambda x: einops.pack([x, x[:, 0]], "a *"),
    lambda x: einops.unpack(x, [[2], [4]], "a *"),
    lambda x: x * einops.parse_shape(x, "a b")["b"],
    lambda x: SPLIT(x),
]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("cold", [True, False])
def test_one_graph(program, cold):
    if cold:
        for held in vars(einops.einops).values():
            getattr(held, "cache_clear", lambda: None)()
    else:
        program(X)
    with stages.collect() as log:
        fast = minitorch2.compile(program, backend="eager", fullgraph=True)
        for x in (X, X.t().reshape(4, 6), torch.arange(48.0).reshape(8, 6)):
            assert_matches_eager(program, x, calls=1, compile=lambda _: fast)
    assert log.counts["graphs"] <= 2
    assert log.counts["graph_breaks"] == 0


def test_sizes_that_vary_stay_symbols():
    def program(x):
        return einops.rearrange(x, "a (b c) -> b (a c)", c=2)

    with stages.collect() as log:
        fast = minitorch2.compile(program, backend="eager", fullgraph=True, dynamic=True)
        for rows in (3, 5, 7, 9):
            x = torch.randn(rows, 6)
            assert torch.equal(fast(x), program(x))
    assert log.counts["graphs"] == 1


def test_a_pattern_that_does_not_fit_raises_the_librarys_error():
    def program(x):
        try:
            return einops.rearrange(x, "a b c -> a")
        except einops.EinopsError:
            return x + 1

    assert_matches_eager(program, X)
