"""Mean and variance: against float64, whole and in pieces."""

import pytest
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.loopir.lowering import moments


def moments_of(x, dim=None, **options):
    return torch.var_mean(x, dim, **options)


def assert_near_float64(given, x, dim=None, rtol=2e-6, **options):
    for got, exact in zip(given, moments_of(x.double(), dim, **options), strict=True):
        torch.testing.assert_close(got.double(), exact, rtol=rtol, atol=0.0, equal_nan=True)


@pytest.mark.parametrize("dim", [None, -1, 0, (0, 2), (1, 2), (0, 1)])
@pytest.mark.parametrize("options", [{}, {"correction": 0}, {"keepdim": True, "correction": 2.5}])
@pytest.mark.parametrize("short", [False, True])
def test_every_dimension(dim, options, short, monkeypatch):
    """Also where even short rows are cut into pieces."""
    if short:
        monkeypatch.setattr(moments, "LONGEST_IN_CACHE", 8)
        monkeypatch.setattr(moments, "SHORTEST_PIECE", 4)
    x = torch.randn(40, 6, 24) + 3
    minitorch2.reset()
    given = minitorch2.compile(lambda x: moments_of(x, dim, **options))(x)
    assert_near_float64(given, x, dim, **options)


@pytest.mark.parametrize(
    ("size", "dim", "kernels"),
    [((1_000_000,), None, 2), ((40, 200_000), -1, 2), ((40, 20_000), -1, 1), ((64, 300), 0, 1)],
)
def test_each_element_is_read_from_memory_once(size, dim, kernels):
    """A long row in pieces that fit into a cache, which a second kernel combines."""
    x = torch.randn(size) * 2 + 5
    with stages.collect() as log:
        given = minitorch2.compile(lambda x: moments_of(x, dim))(x)
    assert log.counts["kernels"] == kernels
    assert_near_float64(given, x, dim)


@pytest.mark.parametrize("size", [(0,), (1,), (3, 0), (3, 1)])
def test_rows_without_a_variance_are_nan_as_in_eager(size):
    x = torch.ones(size)
    with pytest.warns(UserWarning, match="degrees of freedom"):
        expected = moments_of(x, -1)
    given = minitorch2.compile(lambda x: moments_of(x, -1))(x)
    torch.testing.assert_close(given, expected, equal_nan=True)


@pytest.mark.parametrize("special", [float("inf"), float("nan")])
def test_infinities_have_no_variance(special):
    x = torch.randn(2, 300_000)
    x[0, 17] = special
    variance, mean = minitorch2.compile(lambda x: moments_of(x, -1))(x)
    assert variance.isnan().tolist() == [True, False]
    assert mean.isfinite().tolist() == [False, True]
    assert_near_float64((variance[1:], mean[1:]), x[1:], -1, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.complex64])
def test_other_dtypes(dtype):
    x = torch.randn(5, 1000, dtype=dtype)
    given = minitorch2.compile(lambda x: moments_of(x, -1))(x)
    torch.testing.assert_close(given, moments_of(x, -1))


@pytest.mark.parametrize("far", [0.0, 1e6, float("inf")])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_batch_norm_of_channels_far_from_zero(far, layout):
    """Regression: sums of differences from one element, where that is the one far from others."""
    x = (torch.randn(8, 3, 64, 64) + 1000).to(memory_format=layout)
    x[4, 0, 32, 32] = far
    given, wanted = (torch.nn.BatchNorm2d(3, momentum=1.0) for _ in range(2))
    result = minitorch2.compile(given)(x)
    expected = wanted.double()(x.double())
    torch.testing.assert_close(result.double(), expected, rtol=1e-3, atol=1e-3, equal_nan=True)
    variance = given.running_var.double()
    torch.testing.assert_close(variance, wanted.running_var, rtol=1e-5, atol=0.0, equal_nan=True)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("groups", [2, 8])
def test_groups_of_few_channels_are_summed_along_all_channels(groups, dtype, dynamic):
    """A loop over the channels of a group was a loop of 3, and read each line for each group."""
    x = torch.randn(3, 24, 9, 7).add(3).to(memory_format=torch.channels_last, dtype=dtype)
    weight, bias = torch.randn(2, 24, dtype=dtype)

    def normalized(x):
        return torch.nn.functional.group_norm(x, groups, weight, bias).sigmoid()

    with stages.collect() as log:
        given = minitorch2.compile(normalized, fullgraph=True, dynamic=dynamic)(x)
    torch.testing.assert_close(given, normalized(x))
    assert given.stride() == x.stride()
    columns = any("for column in range" in text for text in log.texts("kernel.py"))
    assert columns or dynamic  # a varying number of channels


def test_groups_of_few_channels_have_eagers_gradients():
    x = torch.randn(2, 16, 6, 5).to(memory_format=torch.channels_last).requires_grad_()
    norm = torch.nn.GroupNorm(4, 16)
    expected, given = (
        torch.autograd.grad(f(x).exp().sum(), [x, *norm.parameters()])
        for f in (norm, minitorch2.compile(norm, fullgraph=True))
    )
    torch.testing.assert_close(given, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dim", [(0, 2), (0, 3), (0, 1, 3)])
def test_few_neighbours_of_other_results(dim):
    x = torch.randn(20, 8, 6, 5) * 2 + 3
    assert_near_float64(minitorch2.compile(lambda x: moments_of(x, dim))(x), x, dim)
    turned = x.permute(0, 3, 1, 2)
    given = minitorch2.compile(lambda x: moments_of(x, dim, keepdim=True))(turned)
    assert_near_float64(given, turned, dim, keepdim=True)
