"""Int and float arguments that change from call to call: one compilation for many numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
import torch.nn.functional as F

import minitorch2
from minitorch2 import config, stages
from minitorch2.testing.assertions import assert_same
from tests.unit.bytecode.test_dynamic_sizes import Compiled, counts, shape_guards

X: Final = torch.arange(-3.0, 3.0).reshape(2, 3)
FLOATS: Final = (0.5, 1.5, -2.25, 0.0, -0.0, 1.0, 1e300, 5e-324, math.inf, -math.inf, math.nan)


def test_one_compilation_serves_all_floats() -> None:
    found = counts(lambda x, k: x * k + k, [(X, k) for k in FLOATS])
    assert found == [1] + [2] * (len(FLOATS) - 1)


@pytest.mark.parametrize("backend", ["aot_eager", "numba"])
def test_floats_reach_kernels_exactly(backend: str) -> None:
    def f(x: torch.Tensor, k: float) -> Any:
        scaled = k * 3 - 0.1
        return (
            x * k,
            x * (k // 0.1 - k % 0.1),
            x.double() + scaled / 7,
            1 / (k * k + 1) * x,
            x.int() * k,
            k // 0.3 + x,
        )

    fast = minitorch2.compile(f, backend=backend)
    with stages.collect() as log:
        for k in FLOATS:
            assert_same(fast(X, k), f(X, k))
    assert log.counts["graphs"] == 2
    assert log.counts["frames_as_is"] == 0


def test_gradients_of_what_floats_scale() -> None:
    fast = minitorch2.compile(lambda x, k: (x.sin() * k).sum() / k, backend="numba")
    with stages.collect() as log:
        for k in (0.5, 0.25, 3.5, -1.0):
            x = X.clone().requires_grad_()
            fast(x, k).backward()
            torch.testing.assert_close(x.grad, X.cos())
    assert log.counts["graphs"] == 2


@pytest.mark.parametrize(
    "program",
    [
        lambda x, k: x.clamp(-k, k),
        lambda x, k: x**k,
        lambda x, k: F.leaky_relu(x, k),
        lambda x, k: torch.full((2,), k) + x.sum(),
        lambda x, k: torch.where(x > k, x, k),
        lambda x, k: x.add(x, alpha=k),
        lambda x, k: (x > k) & (x != k),
        lambda x, k: x + math.exp(k) + math.sqrt(k) - math.fabs(-k) + math.tanh(k),
        lambda x, k: x * abs(k) + max(k, 1.25) + min(1, k),
        lambda x, k: x * int(k) + math.floor(k) - math.ceil(k),
        lambda x, k: torch.lerp(x, x * 2, k),
        lambda x, k: F.softplus(x, beta=k),
        lambda x, k: x.new_tensor([1.0, k]) if k > 2 else x * (k, 2.0)[0],
    ],
)
def test_operators_on_floats(program: Callable[..., Any]) -> None:
    fast = minitorch2.compile(program, backend="numba")
    with config.patch(suppress_errors=False):
        for k in (0.5, 1.75, 2.5, 3.25, 0.75):
            torch.testing.assert_close(fast(X, k), program(X, k), equal_nan=True)


def test_conditions_on_floats_are_guards_and_nan_is_on_no_side() -> None:
    def f(x: torch.Tensor, k: float) -> torch.Tensor:
        if k > 2:
            return x + k
        return x - k if k <= 2 else x * 0

    compiled = Compiled(f)
    calls = (0.5, 1.5, 3.0, 7.0, math.inf, math.nan, math.nan, 0.25, -math.inf)
    assert [compiled(X, k) for k in calls] == [1, 2, 3, 3, 3, 4, 4, 4, 4]
    assert shape_guards(compiled) == ["not (k > 2.0)", "not (k <= 2.0)"]


def test_a_nan_differs_from_itself() -> None:
    found = counts(lambda x, k: x if k != k else x + k, [(X, k) for k in (1.0, 2.0, math.nan, 3.0)])
    assert found == [1, 2, 2, 2]


@pytest.mark.parametrize("fullgraph", [False, True])
def test_the_text_of_a_float_is_never_stale(fullgraph: bool) -> None:
    def f(x: torch.Tensor, k: float) -> Any:
        return x * k, f"{k}"

    fast = minitorch2.compile(f, backend="eager", fullgraph=fullgraph)
    for k in (0.5, 1.5, 0.0, -0.0, math.nan, 2.5):
        assert_same(fast(X, k), f(X, k))


def test_a_number_may_become_a_float() -> None:
    found = counts(lambda x, k: x * k, [(X.int(), k) for k in (1, 2, 3, 0.5, 0.25, 7)])
    assert found[-1] <= 4


def test_attributes_that_change_are_symbols_too() -> None:
    class Schedule:
        rate = 0.5

    def f(x: torch.Tensor, schedule: Schedule) -> torch.Tensor:
        return x * schedule.rate

    compiled, schedule = Compiled(f), Schedule()
    found = []
    for schedule.rate in (0.5, 0.25, 0.125, 0.0625):
        found.append(compiled(X, schedule))
    assert found == [1, 2, 2, 2]


def test_ints_may_be_zero_one_and_negative() -> None:
    found = counts(lambda x, n: (x * n + n // 2 - n % 3, n + 1), [(X, n) for n in range(-4, 5)])
    assert found == [1] + [2] * 8


def test_a_static_compilation_takes_floats_for_constants() -> None:
    assert counts(lambda x, k: x * k, [(X, 0.5), (X, 1.5)], dynamic=False, fullgraph=True) == [1, 2]


@pytest.mark.parametrize("backend", ["aot_eager", "numba"])
def test_an_index_that_varies(backend: str) -> None:
    def f(x: torch.Tensor, k: int) -> torch.Tensor:
        return x[k] * 2 + x[k + 1] + x[:, k : k + 2].sum()

    x = torch.randn(9, 9)
    with stages.collect() as log:
        fast = minitorch2.compile(f, backend=backend)
        for k in (3, 2, 5, 0, 1, 7):
            torch.testing.assert_close(fast(x, k), f(x, k))
    assert log.counts["graphs"] == 2
    for k in (-1, -9):
        torch.testing.assert_close(fast(x, k), f(x, k))
    with pytest.raises(IndexError):
        fast(x, 9)


def test_a_float_of_a_number_that_turns_out_to_be_fixed():
    """Its text is asked for behind the place where it was made a float."""

    def filled(x, n):
        return x + torch.full((3,), float(n)), len(f"c{n}") * x

    compiled = minitorch2.compile(filled, backend="numba")
    for n in range(4):
        torch.testing.assert_close(compiled(torch.ones(3), n), filled(torch.ones(3), n))


POWERS: Final[dict[str, Callable[..., Any]]] = {
    "itself": lambda x, n: x + n,
    "remainder": lambda x, n: x + n % 7,
    "square": lambda x, n: x + (n * n) % 5,
    "cube": lambda x, n: x + (n * n * n) % 5,
}


@pytest.mark.parametrize("name", POWERS)
def test_integers_that_need_more_than_64_bits_are_computed_by_python(name: str) -> None:
    function = POWERS[name]
    compiled, x = minitorch2.compile(function, backend="numba"), torch.ones(2, dtype=torch.float64)
    for n in (3, 4, 5, 2**40, -(2**21), *([] if name == "itself" else [2**80, -(2**70)]), 7):
        assert torch.equal(compiled(x, n), function(x, n)), n


class Counting(torch.nn.Module):
    """A module that counts its calls, and one inside of it that does, too."""

    def __init__(self, inside=None):
        super().__init__()
        self.calls, self.average, self.inside, self.scale = 0, 1.0, inside, 3

    def forward(self, x):
        self.calls += 1
        self.average = self.average * 0.5 + 0.25
        if self.inside is not None:
            x = self.inside(x)
        return x * self.calls * self.scale + self.average


def test_a_module_that_counts_its_calls_compiles_once_more():
    """Each call had a graph of its own until the recompile limit."""
    module, same = Counting(Counting()), Counting(Counting())
    with stages.collect() as log:
        fast = minitorch2.compile(module, backend="eager")
        for _ in range(10):
            x = torch.randn(3, requires_grad=True)
            given, wanted = fast(x), same(x)
            torch.testing.assert_close(given, wanted)
            grads = [torch.autograd.grad(value.sum(), x)[0] for value in (given, wanted)]
            torch.testing.assert_close(*grads)
    assert (log.counts["graphs"], log.counts["graph_breaks"]) == (2, 0)
    assert (module.calls, module.inside.calls, module.average) == (10, 10, same.average)
    assert type(module.calls) is int and type(module.average) is float


def test_a_number_of_a_module_that_nothing_writes_stays_a_constant():
    """It belongs to the model; blocks of one class differ in it, and each has its own graph."""
    module = Counting()
    with stages.collect() as log:
        fast = minitorch2.compile(lambda x: x * module.scale, backend="eager")
        for module.scale in (3, 4, 5):
            torch.testing.assert_close(fast(torch.ones(2)), torch.full((2,), float(module.scale)))
    assert log.counts["graphs"] == 3


class _Cache:
    """Rows so far, and their count beside them, as language models keep keys."""

    def __init__(self) -> None:
        self.rows, self.count = None, 0

    def step(self, x: torch.Tensor) -> torch.Tensor:
        """Attend to all rows; the mask is made of the count, and meets the rows' length."""
        mask = torch.arange(self.count + x.shape[0]) <= self.count
        self.count += x.shape[0]
        self.rows = x if self.rows is None else torch.cat([self.rows, x])
        return torch.where(mask, x @ self.rows.T, -9.0).softmax(-1) @ self.rows


def test_a_count_that_equals_a_size_varies_with_it() -> None:
    """The second call made the count a constant, since the length did not vary yet, for ever."""
    fast, slow = _Cache(), _Cache()
    step = minitorch2.compile(_Cache.step, backend="eager")
    with stages.collect() as log:
        for rows in (4, *(1,) * 12):
            x = torch.randn(rows, 3)
            torch.testing.assert_close(step(fast, x), slow.step(x))
            assert log.counts["frames"] <= 5
    assert fast.count == slow.count


def _aligned(x: torch.Tensor) -> torch.Tensor:
    n = (x.shape[0] + 7) & ~7
    return F.pad(x, (0, 0, 0, n - x.shape[0]))


OF_SIZES: Final[dict[str, Callable[[torch.Tensor], Any]]] = {
    "divmod": lambda x: [x * part for part in divmod(x.shape[0], 2)],
    "shifts": lambda x: (x * (x.shape[0] >> 1), x.shape[0] << 2),
    "masks": lambda x: (x * (x.shape[0] & 1), ~x.shape[0]),
    "aligned": _aligned,
    "ceil": lambda x: (x[: math.ceil(x.shape[0] / 3)], math.ceil(x.shape[0] / 3)),
    "floor": lambda x: x[math.floor(x.shape[0] / 2) :],
    "trunc": lambda x: x * math.trunc(x.shape[0] / 4),
    "int of a product": lambda x: x.new_zeros(int(x.shape[0] * 0.5)),
    "round": lambda x: (x * round(x.shape[0] / 4), round(x.shape[0])),
    "isqrt": lambda x: (x * math.isqrt(x.shape[0]), math.isqrt(x.shape[0] ** 2)),
    "log2": lambda x: torch.cat([x, x[: math.ceil(math.log2(x.shape[0]))]]),
    "log10": lambda x: x * math.log10(x.shape[0]),
    "bit_length": lambda x: (x * x.shape[0].bit_length(), (x.shape[0] - 1).bit_length()),
    "exclusive or": lambda x: (x * (x.shape[0] ^ 5), 5 ^ x.shape[0], x.shape[0] | 6),
    "and": lambda x: (x * (x.shape[0] & 5), 5 & x.shape[0], x.shape[0] & x[0].shape[0]),
    "next power of two": lambda x: F.pad(
        x, (0, 0, 0, (1 << (x.shape[0] - 1).bit_length()) - x.shape[0])
    ),
    "shifted by sizes": lambda x: (x * (1 << x.shape[0] // 2), 2 ** x.shape[0], 999 >> x.shape[0]),
    "bit_count": lambda x: (x * x.shape[0].bit_count(), (-x.shape[0]).bit_count()),
    "in a range": lambda x: x * 2 if x.shape[0] in range(2, 200) else x,
    "in a range downwards": lambda x: x * (x.shape[0] in range(100, 1, -1)),
}


@pytest.mark.parametrize("backend", ["eager", "numba"])
@pytest.mark.parametrize("name", OF_SIZES)
def test_integer_functions_of_sizes_stay_symbolic(name: str, backend: str) -> None:
    program = OF_SIZES[name]
    fast = minitorch2.compile(program, dynamic=True, backend=backend, fullgraph=True)
    with stages.collect() as log:
        for n in (5, 6, 9, 10, 13, 33):
            x = torch.arange(3.0 * n).reshape(n, 3)
            assert_same(fast(x), program(x))
    assert (log.counts["graphs"], log.counts["frames_as_is"]) == (1, 0)


def test_functions_of_truth_values_and_of_two_numbers() -> None:
    def program(x: torch.Tensor) -> Any:
        n = x.shape[0]
        b = n > 4
        bits = b.bit_length(), round(b), math.floor(b), math.sqrt(b), b << 2, b >> 1, b & 3, b | 1
        return (
            x + 1,
            bits,
            divmod(b, 2),
            b in range(1, 3),
            math.log(n, 2),
            math.log(n, n),
            n << True,
        )

    fast = minitorch2.compile(program, dynamic=True, backend="eager")
    for n in (3, 5, 8, 4):
        assert_same(fast(torch.ones(n)), program(torch.ones(n)))


OF_INTEGERS: Final[dict[str, Callable[[torch.Tensor, int], Any]]] = {
    "shift right": lambda x, n: (x * (n >> 1), n >> 3),
    "shift left": lambda x, n: (x * (n << 2), n << 70),
    "masks": lambda x, n: (x * (n & 7), n & -8, n & 5, n | 1, n ^ 3),
    "inverse": lambda x, n: (x * ~n, ~n),
    "shifted by": lambda x, n: (1 << n, x * (100 >> n), 2**n),
    "two numbers": lambda x, n: (
        x * (n ^ 3),
        n & (n - 1),
        n | (n >> 1),
        n.bit_count(),
        0.5 + (n ^ 1),
    ),
    "no integers": lambda x, n: (x * (n ^ True), n | False, n ^ 0.5),
    "divmod": lambda x, n: (x * divmod(n, 5)[1], divmod(n, 5), divmod(n, -3), divmod(7, n)),
    "ranges": lambda x, n: (x * (n in range(-3, 3)), n in range(5, -5, -2), n in range(0)),
    "isqrt": lambda x, n: x * math.isqrt(n),
    "logarithms": lambda x, n: (x * math.log2(n), math.log10(n)),
    "rounded": lambda x, n: (x * math.floor(n / 3), math.ceil(n / 3), int(n / 3), round(n / 3)),
    "bits": lambda x, n: (x * n.bit_length(), round(n), round(n, -1)),
}


@pytest.mark.parametrize("name", OF_INTEGERS)
def test_integer_functions_are_those_of_python(name: str) -> None:
    """Of negative numbers, of zero, beyond 53 and 64 bits; errors, too."""
    program = OF_INTEGERS[name]
    fast = minitorch2.compile(program, backend="eager")

    def told(function: Callable[[torch.Tensor, int], Any], n: int) -> str:
        try:
            return repr(function(X, n))
        except Exception as error:
            return repr(error)

    with stages.collect() as log:
        for n in (5, 7, 12, -5, -12, 2, 1, 0, 2**40, 2**55 + 1, -(2**55) - 1, 2**70, -(2**62)):
            assert told(fast, n) == told(program, n)
    assert log.counts["graphs"] < 10
