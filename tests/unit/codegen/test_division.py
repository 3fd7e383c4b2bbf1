"""Quotients and remainders: bitwise eager's, in vectors of floats and without a branch."""

import re

import pytest
import torch

import minitorch2
from minitorch2.native.kernels.runtime import compile_module
from minitorch2.native.llvm import machine_code
from tests.unit.codegen.test_vecmath import kernel_of

DIVISIONS = {
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
}
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]


def of_all_sizes(dtype: torch.dtype, count: int = 3000) -> tuple[torch.Tensor, torch.Tensor]:
    """Dividends and divisors of every number of bits, next to multiples too; no divisor 0."""
    torch.manual_seed(0)
    limits = torch.iinfo(dtype)
    edges = [limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1, 2, 3, limits.max // 3]
    edges += [-1, -2, -3, limits.min // 2] * (dtype != torch.uint8)
    drawn = torch.randint(limits.min, limits.max, (count,), dtype=dtype)
    numbers = torch.cat([
        torch.tensor(edges, dtype=dtype).repeat(30), drawn,
        drawn >> torch.randint(0, 8 * dtype.itemsize - 1, (count,), dtype=dtype),
    ])  # fmt: skip
    y = numbers[torch.randperm(len(numbers))]
    near = y * torch.randint(-50, 50, y.shape).to(dtype)
    x, y = torch.cat([numbers, near, near + 1, near - 1]), y.repeat(4)
    traps = (y == 0) | ((y == limits.max - limits.max - 1) & (x == limits.min))
    return x[~traps], y[~traps]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", DIVISIONS)
def test_integers_are_divided_as_in_eager(name, dtype):
    function, (x, y) = DIVISIONS[name], of_all_sizes(dtype)
    assert torch.equal(minitorch2.compile(function)(x, y), function(x, y))
    for number in (7, -3, 1, 100):
        if dtype != torch.uint8 or number > 0:
            divide = lambda x, n=number: function(x, n)  # noqa: E731
            assert torch.equal(minitorch2.compile(divide)(x), divide(x))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_the_smallest_integer_by_minus_one_does_not_trap(dtype):
    x = torch.full((40,), torch.iinfo(dtype).min, dtype=dtype)
    y = torch.full((40,), -1, dtype=dtype)
    assert torch.equal(minitorch2.compile(lambda x, y: x // y)(x, y), x)
    assert torch.equal(minitorch2.compile(torch.fmod)(x, y), torch.zeros_like(x))


@pytest.mark.parametrize("count", [1, 1000])
def test_one_zero_among_integer_divisors_is_an_error(count):
    x, y = torch.arange(count), torch.ones(count, dtype=torch.int64)
    fast = minitorch2.compile(lambda x, y: x % y)
    assert torch.equal(fast(x, y), x % y)
    y[-1] = 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        fast(x, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", DIVISIONS)
def test_floats_are_divided_as_in_eager(name, dtype):
    """Where a quotient has more digits than its dtype eager's remainder is NaN, and ours exact."""
    torch.manual_seed(0)
    bits = {torch.float32: torch.int32, torch.float64: torch.int64}[dtype]
    limits, function = torch.iinfo(bits), DIVISIONS[name]
    inf = torch.inf
    edges = torch.tensor([0.0, -0.0, inf, -inf, torch.nan, 1, -1, 3, 1e-45, 1e30, 0.1], dtype=dtype)
    drawn = torch.randint(limits.min, limits.max, (20_000,), dtype=bits).view(dtype)
    x = torch.cat([drawn, torch.randn(20_000, dtype=dtype), edges.repeat(100)])
    y = x[torch.randperm(len(x))]
    near = y * torch.randint(-50, 50, y.shape)
    x, y = torch.cat([x, near, torch.nextafter(near, y)]), y.repeat(3)
    ours, eager = minitorch2.compile(function)(x, y), function(x, y)
    same = (ours == eager) & (ours.signbit() == eager.signbit())
    is_far = (x / y).abs() >= 2 / torch.finfo(dtype).eps
    assert bool((same | (ours.isnan() & eager.isnan()) | is_far).all())


def test_a_huge_quotient_changes_nothing_for_its_neighbours():
    x, y = torch.linspace(-90, 90, 1000), torch.full((1000,), 7.0)
    mixed = x.clone()
    mixed[::37] = 1e30
    fast = minitorch2.compile(torch.fmod)
    is_far = mixed != x
    assert torch.equal(fast(mixed, y)[~is_far], torch.fmod(x, y)[~is_far])
    exact = torch.tensor(float(int(mixed[0].item()) % 7))
    assert torch.equal(fast(mixed, y)[is_far], exact.expand(int(is_far.sum())))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize("name", ["floordiv", "mod", "truncdiv", "remainder"])
def test_integer_division_is_vectorized(name, kind):
    features = machine_code.toolchain()["features"].split(",")
    if kind == "int64" and "+avx512dq" not in features:
        pytest.skip("this processor does not convert vectors of int64")
    module = compile_module(kernel_of(f"{name}(x, y)", (kind,) * 3), "kernel_symbol")
    code = machine_code.assembly(module)
    assert re.search(r"v?divp[sd]\s|fdiv\s+v\d+\.\d[sd]", code)
    assert not re.search(r"\bi?div[bwlq]\s|\s[su]div\s", code)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize("name", ["lshift", "rshift"])
def test_shifts_stay_in_their_words(name, kind):
    """A loop over bytes moves bytes: no word is four times as wide."""
    module = compile_module(kernel_of(f"{name}(x, y)", (kind,) * 3), "kernel_symbol")
    assert kind == "int64" or not re.search(r"<\d+ x i64>", str(module))


def test_a_division_that_only_some_elements_need():
    """What says that a divisor was 0 is set before all loops, not where the first division is."""
    x, y = torch.arange(600).view(20, 30), torch.arange(1, 601).view(20, 30)
    parts = lambda x, y: torch.cat((x + 1, x // y), 0)  # noqa: E731
    fast = minitorch2.compile(parts)
    assert torch.equal(fast(x, y), parts(x, y))
    y[3, 4] = 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        fast(x, y)
