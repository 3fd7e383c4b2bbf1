"""Numbers that kernels draw by themselves: ``options={"fallback_random": False}``."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import minitorch2
from minitorch2 import config, stages
from minitorch2.errors import BackendError

OWN = {"fallback_random": False}

UNIFORM: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "rand": lambda x: torch.rand(x.shape),
    "rand_like": lambda x: torch.rand_like(x),
    "uniform_": lambda x: (torch.empty_like(x).uniform_(-2, 2) + 2) / 4,
}
NORMAL: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "randn": lambda x: torch.randn(x.shape),
    "randn_like": lambda x: torch.randn_like(x),
    "normal_": lambda x: (torch.empty_like(x).normal_(3, 2) - 3) / 2,
}
MASKS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "dropout": lambda x: (F.dropout(x + 1, 0.25) != 0).float(),
    "dropout2d": lambda x: (F.dropout2d(x[:, :, None, None] + 1, 0.25) != 0).float(),
    "alpha_dropout": lambda x: (F.alpha_dropout(x + 1, 0.25, True) > 0).float(),
    "bernoulli_": lambda x: torch.empty_like(x).bernoulli_(0.75),
    "bernoulli": lambda x: torch.bernoulli(x + 0.75),
}
WHOLE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "randint": lambda x: torch.randint(16, x.shape),
    "randint_low": lambda x: torch.randint(-8, 8, x.shape, dtype=torch.int8) + 8,
    "randint_float": lambda x: torch.randint(16, x.shape, dtype=torch.bfloat16),
    "randint_like": lambda x: torch.randint_like(x, 16),
    "randint_like_low": lambda x: torch.randint_like(x, 3, 19, dtype=torch.int32) - 3,
    "random_": lambda x: torch.empty_like(x).random_(16),
    "random_from": lambda x: torch.empty_like(x).random_(-4, 12) + 4,
}
EXPONENTIAL: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exponential_": lambda x: torch.empty_like(x).exponential_(),
    "exponential_rate": lambda x: torch.empty_like(x).exponential_(0.25) / 4,
    "exponential_double": lambda x: torch.empty_like(x, dtype=torch.double).exponential_(),
}
DRAWN = UNIFORM | NORMAL | MASKS | WHOLE | EXPONENTIAL
NOTHING = torch.zeros(256, 256)


def drawing(name: str, **options: Any) -> Callable[..., torch.Tensor]:
    return minitorch2.compile(DRAWN[name], options=OWN | options, fullgraph=True)


@pytest.mark.parametrize("name", DRAWN)
def test_fresh_at_each_call_and_repeatable(name: str) -> None:
    fast = drawing(name)
    torch.manual_seed(7)
    with stages.collect() as log:
        first, second = fast(NOTHING), fast(NOTHING)
    torch.manual_seed(7)
    assert torch.equal(fast(NOTHING), first)
    assert log.counts["fallbacks"] == 0 and log.counts["library_calls"] <= 2  # draw seeds
    assert not torch.equal(first, second)
    if (
        name not in MASKS
    ):  # neighbours, and what is drawn one after the other, have nothing in common
        rows = torch.stack([first.flatten()[1:], first.flatten()[:-1], second.flatten()[1:]])
        assert (torch.corrcoef(rows) - torch.eye(3)).abs().max() < 0.02


@pytest.mark.parametrize("name", UNIFORM)
@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str
)
def test_uniform_numbers(name: str, dtype: torch.dtype) -> None:
    with torch.no_grad():
        given = drawing(name)(NOTHING.to(dtype)).float()
    counts = torch.histc(given, 16, 0, 1)
    expected = given.numel() / 16
    assert given.min() >= 0 and given.max() < (1 if name != "uniform_" else 1.01)
    assert ((counts - expected) ** 2 / expected).sum() < 60  # chi squared: 15 degrees of freedom


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers(name: str) -> None:
    given = drawing(name)(NOTHING)
    assert given.dtype == WHOLE[name](NOTHING).dtype
    expected = given.numel() / 16
    assert ((torch.bincount(given.flatten().long(), minlength=16) - expected) ** 2).sum() < (
        60 * expected
    )


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int64], ids=str)
def test_whole_numbers_reach_the_ends_of_their_dtype(dtype: torch.dtype) -> None:
    ends = torch.iinfo(dtype)

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.randint(
            ends.min, 2 if dtype is torch.int64 else ends.max + 1, x.shape, dtype=dtype
        )

    given = minitorch2.compile(program, options=OWN, fullgraph=True)(NOTHING)
    assert given.min() < ends.min * 0.9 + 1
    if dtype is not torch.int64:
        assert given.min() == ends.min and given.max() == ends.max


def test_numbers_out_of_range_are_eagers_errors() -> None:
    for wrong in (
        lambda x: torch.randint(9, 3, (4,)),
        lambda x: torch.randint(0, 300, (4,), dtype=torch.uint8),
        lambda x: torch.randint(-3, 30, (4,), dtype=torch.uint8),
        lambda x: torch.empty_like(x).exponential_(-1.0),
    ):
        with pytest.raises(RuntimeError) as expected:
            wrong(NOTHING)
        with pytest.raises(RuntimeError) as found:
            minitorch2.compile(wrong, options=OWN)(NOTHING)
        assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("name", EXPONENTIAL)
def test_exponential_numbers(name: str) -> None:
    given = drawing(name)(NOTHING)
    assert given.min() > 0 and given.isfinite().all()
    bounds = -torch.log(1 - torch.arange(1, 16) / 16)
    counts = torch.bincount(torch.bucketize(given.float().flatten(), bounds), minlength=16)
    expected = given.numel() / 16
    assert ((counts - expected) ** 2 / expected).sum() < 60


def test_gumbel_softmax_is_drawn_by_kernels() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return F.gumbel_softmax(x, hard=True)

    with stages.collect() as log:
        given = minitorch2.compile(program, options=OWN, fullgraph=True)(NOTHING)
    assert log.counts["library_calls"] == 1  # of the seed
    assert torch.equal(given.sum(1), torch.ones(256))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", NORMAL)
def test_normal_numbers(name: str, dtype: torch.dtype) -> None:
    given = drawing(name)(NOTHING.to(dtype)).float()
    assert abs(given.mean()) < 0.02 and abs(given.std() - 1) < 0.02
    bounds = torch.distributions.Normal(0.0, 1.0).icdf(torch.arange(1, 16) / 16)
    counts = torch.bincount(torch.bucketize(given.flatten(), bounds), minlength=16)
    expected = given.numel() / 16
    assert ((counts - expected) ** 2 / expected).sum() < 60


@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str) -> None:
    given = drawing(name)(NOTHING)
    assert abs(given.mean() - 0.75) < 4 * 0.44 / given.numel() ** 0.5


def test_backward_reads_the_seed_alone() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(F.dropout(x * 2, 0.5) * 3, 0.5)

    x = torch.ones(64, 64, requires_grad=True)
    with stages.collect() as log:
        result = minitorch2.compile(program, options=OWN)(x)
        kept = [t for t in result.grad_fn.saved_tensors if t is not x]
        (gradient,) = torch.autograd.grad(result.sum(), x)
    assert torch.equal(gradient, result.detach())
    assert [t.nbytes for t in kept] == [8, 8]
    assert log.counts["kernels"] == 2  # forward and backward


def test_the_hash_is_splitmix() -> None:
    def mixed(z: int) -> int:
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = (z ^ (z >> shift)) * factor % 2**64
        return z ^ (z >> 31)

    torch.manual_seed(3)
    given = minitorch2.compile(lambda x: torch.rand(100), options=OWN)(NOTHING)
    torch.manual_seed(3)
    seed = int(torch.randint(2**63 - 1, ()))
    words = [mixed((seed + i * 0x9E3779B97F4A7C15) % 2**64) for i in range(100)]
    assert given.tolist() == [(word >> 40) / 2**24 for word in words]


def test_no_two_operators_draw_the_same() -> None:
    first, second = minitorch2.compile(
        lambda x: (torch.rand_like(x), torch.rand_like(x)), options=OWN
    )(NOTHING)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("options", [{"fusion": False}, {"inline_pointwise": False}], ids=str)
def test_numbers_do_not_depend_on_kernels(options: dict[str, Any]) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b = F.dropout(x + 1, 0.5), torch.randn_like(x)
        return b.sin() * a, a.sum(0), torch.rand_like(x) + b

    results = []
    for each in (OWN, OWN | options):
        torch.manual_seed(3)
        results.append(minitorch2.compile(program, options=each)(NOTHING))
    torch.testing.assert_close(*results)


def test_any_backend_draws_the_same() -> None:
    results = []
    for backend in ("numba", "aot_eager"):
        torch.manual_seed(3)
        with config.patch(fallback_random=False):
            results.append(minitorch2.compile(MASKS["dropout"], backend=backend)(NOTHING))
    assert torch.equal(*results)


def test_sizes_that_vary() -> None:
    fast = minitorch2.compile(lambda x: F.dropout(x + 1, 0.5), options=OWN, dynamic=True)
    for rows in (3, 40, 200):
        given = fast(NOTHING[:rows])
        assert given.shape == (rows, 256)
        assert abs((given != 0).float().mean() - 0.5) < 0.1


def test_what_has_no_kernel_draws_eagers() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.randperm(10), torch.randint(5, ()), torch.multinomial(x[0] + 1, 4)

    torch.manual_seed(3)
    given = minitorch2.compile(program, options=OWN)(NOTHING)
    torch.manual_seed(3)
    assert all(map(torch.equal, given, program(NOTHING)))


def test_a_second_derivative_would_draw_others() -> None:
    x = torch.ones(8, requires_grad=True)
    fast = minitorch2.compile(lambda x: F.dropout(x**3), options=OWN)
    (first,) = torch.autograd.grad(fast(x).sum(), x, create_graph=True)
    with pytest.raises(BackendError) as found:
        first.sum().backward()
    assert found.value.code == "double-backward"
