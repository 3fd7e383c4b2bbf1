"""Sizes and numbers that come out of data: graphs, breaks, checks and what is reported of them."""

import warnings

import pytest
import torch

import minitorch2
from minitorch2 import config, stages
from minitorch2.errors import GraphBreakError
from minitorch2.testing import assert_same
from tests.unit.bytecode.capturing import check

X = torch.tensor([1.0, -2.0, 3.0])
N = torch.tensor(2)


def compiled_and_eager(function, calls, backend="eager", **settings):
    """Compile once, run all calls as eager does, exceptions included; the log."""
    fast = minitorch2.compile(function, backend=backend, **settings)
    with stages.collect() as log:
        for args in calls:
            assert_same(outcome(fast, args), outcome(function, args))
    return log


def outcome(function, args):
    try:
        return function(*args)
    except (RuntimeError, ValueError, AssertionError, IndexError) as error:
        return type(error).__name__, str(error)


# Where graphs end ---------------------------------------------------------------------------------


def test_a_branch_breaks_at_the_branch_and_not_at_the_item():
    def f(x):
        n = (x > 0).sum().item()
        y = torch.zeros(n) + n
        if n > 1:
            return y + 1
        return y - 1

    with stages.collect() as log:
        fast = minitorch2.compile(f, backend="eager")
        for value in (X, -X, X, -X):
            assert_same(fast(value), f(value))
    (broken,) = set(log.texts("graph_break"))
    assert "if n > 1" in broken and "[unbacked-size]" in broken
    assert "u0 is made by" in broken and "n = (x > 0).sum().item()" in broken
    assert "torch._check(u0 > 1)" in broken
    assert log.counts["graphs"] == 3


def test_printing_a_number_breaks_at_the_print():
    def f(x):
        n = x.sum().item()
        print(n)
        return x * n

    check(f, X, graphs=2, breaks=1)


def test_an_index_of_a_list_a_range_and_a_key_read_the_number():
    def f(x):
        n = (x > 0).sum().item()
        return [10, 20, 30][n], list(range(n)), {2: "two"}[n], f"{n}", x + 1

    with stages.collect() as log:
        assert_same(minitorch2.compile(f, backend="eager")(X), f(X))
    assert log.counts["frames_as_is"] == 0


def test_without_the_option_the_graph_breaks_at_the_data():
    def f(x):
        return x[x > 0].sum(), x.sum().item()

    with config.patch(capture_data_dependent=False):
        check(f, X, breaks=2)
    check(f, X, graphs=1, breaks=0)


def test_a_gradient_that_must_know_a_size_breaks_the_graph_at_the_data():
    def f(x):
        return x[x > 0].std() + x.sum()

    x = X.clone().requires_grad_()
    with stages.collect() as log:
        result = minitorch2.compile(f, backend="aot_eager")(x)
    assert_same(result, f(x))
    assert (log.counts["graph_breaks"], log.counts["frames_as_is"]) == (1, 0)


def test_two_counts_are_not_taken_for_equal():
    def f(x):
        return x[x > 0] + x[x < 5]

    with pytest.raises(GraphBreakError, match=r"needs to know whether u[01] != u[01]"):
        minitorch2.compile(f, backend="eager", fullgraph=True)(X)


def test_a_mask_that_was_written_to_is_counted_anew():
    def f(x):
        mask = x > 0
        before = x[mask] * 2
        mask[0] = False
        return before, x[mask] * 2, before.shape[0] + x[mask].shape[0]

    check(f, X, graphs=1, breaks=0)


def test_a_variable_called_as_a_symbol():
    def f(u0, s0):
        n = s0.item()
        torch._check(n >= 0)
        return u0[u0 > 0] * 2, torch.zeros(n) + u0.sum()

    for backend in ("eager", "aot_eager", "numba"):
        compiled_and_eager(f, [(X, N), (-X, N * 2)], backend, fullgraph=True)


# Checks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "numba"])
def test_checks_raise_what_they_raise_in_eager(backend):
    def f(x, n):
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= 3, lambda: f"at most 3 rows, not {k}")
        torch._check_value(k != 1, lambda: "one is not allowed")
        return x[:k] * 2 if k < 4 else x

    calls = [(X, torch.tensor(n)) for n in (2, 0, 1, 3, 4, -1)]
    log = compiled_and_eager(f, calls, backend, fullgraph=True)
    assert (log.counts["graphs"], log.counts["graph_breaks"]) == (1, 0)


def test_a_range_decides_branches():
    def f(x, n):
        k = n.item()
        torch.sym_constrain_range_for_size(k, min=2, max=10)
        if k < 1:
            return x
        return torch.ones(k) * (1 if k <= 10 else 2)

    log = compiled_and_eager(f, [(X, torch.tensor(n)) for n in (2, 10, 5)], fullgraph=True)
    assert log.counts["graphs"] == 1


def test_a_negative_size_raises():
    def f(n):
        return torch.zeros(n.item()).sum()

    fast = minitorch2.compile(f, backend="numba", fullgraph=True)
    assert_same(fast(N), f(N))
    with pytest.raises(RuntimeError, match="negative"):
        fast(-N)


def test_the_maximum_of_nothing_raises():
    def f(x):
        return x[x > 0].max()

    calls = [(X,), (-X.abs(),), (X.abs(),)]
    log = compiled_and_eager(f, calls, "numba", fullgraph=True)
    assert log.counts["graphs"] == 1


def test_where_an_operator_assumes_more_than_eager_python_has_the_last_word():
    def f(x, n):
        return x.view(n.item())

    fast = minitorch2.compile(f, backend="numba", fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in (3, -1):
            assert_same(fast(X, torch.tensor(n)), X)


@pytest.mark.parametrize("rows", [0, 1, 2, 5])
def test_an_operator_that_asks_whether_there_is_anything_does_not_break_the_graph(rows):
    """logsumexp of nothing is -inf, so its kernel asks; a program that asks itself still breaks."""

    def f(x):
        kept = x[x[:, 0] > 0]
        return kept.logsumexp(1), kept.roll(1, 0)

    x = torch.ones(5, 3)
    x[rows:] = -1
    fast = minitorch2.compile(f, backend="aot_eager", fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(fast(x), f(x))
    with pytest.raises(GraphBreakError, match="needs to know whether 3\\*u0 == 0"):
        minitorch2.compile(lambda x: x[x[:, 0] > 0].numel() == 0 and x, fullgraph=True)(x)


# Marked dimensions --------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["aot_eager", "numba"])
def test_a_marked_dimension_through_the_whole_stack(backend):
    def f(x):
        return torch.softmax(x, -1).sum(0), x.t() @ x, x.sin() / x.shape[0]

    with stages.collect() as log:
        fast = minitorch2.compile(f, backend=backend, fullgraph=True)
        for rows in (5, 1, 0, 7):
            ours, theirs = (
                torch.randn(rows, 3, generator=torch.Generator().manual_seed(rows)).requires_grad_()
                for _ in range(2)
            )
            minitorch2.mark_unbacked(ours, 0)
            result, expected = fast(ours), f(theirs)
            assert_same(result, expected, 1e-5)
            for values, x in ((result, ours), (expected, theirs)):
                torch.stack([value.sum() for value in values]).sum().backward()
                assert x.grad is not None
            assert_same(ours.grad, theirs.grad, 1e-5)
    assert log.counts["graphs"] == 1


# Layouts are lazy ---------------------------------------------------------------------------------


def test_contiguity_that_nobody_asks_for_makes_no_guard():
    def f(x):
        kept = x[x[:, 0] > 0]
        return kept.t().sin().transpose(0, 1) + 1, kept.t().contiguous()

    fast = minitorch2.compile(f, backend="eager", fullgraph=True)
    x = torch.randn(4, 3)
    assert_same(fast(x), f(x))
    (entry,) = minitorch2.shapes(fast).entries
    assert not entry.guards
    assert not any("stated" in step for size in entry.sizes for step in size.chain)


# Reports ------------------------------------------------------------------------------------------


def test_shapes_tells_the_line_that_made_a_number_and_what_was_stated_of_it():
    def f(x):
        n = (x > 0).sum().item()
        torch._check(n <= 7)
        return torch.arange(n)

    fast = minitorch2.compile(f, backend="eager", fullgraph=True)
    fast(X)
    text = str(minitorch2.shapes(fast))
    assert "u0: 0 .. 7 (only data will tell)" in text
    assert "made by" in text and "n = (x > 0).sum().item()" in text
    assert "u0 <= 7, stated by Python" in text and "torch._check(n <= 7)" in text


def test_what_raises_for_some_floats_is_left_to_python():
    def f(x):
        try:
            return int(x.sum().item()), x + 1
        except (ValueError, OverflowError) as error:
            return str(error)

    compiled_and_eager(f, [(X * value,) for value in (1.0, float("nan"), float("inf"))])


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "numba"])
def test_every_kind_of_number(backend):
    def f(i, x, b):
        return i.item() + 1, x.item() * 2, float(i), int(x), x.long().item(), b.item(), i.tolist()

    calls = [
        (torch.tensor(n), torch.tensor(v, dtype=d), torch.tensor(n > 2))
        for n in (1, 5)
        for v in (0.5, 2.25)
        for d in (torch.float32, torch.float64)
    ]
    for args in calls:
        fast = minitorch2.compile(f, backend=backend)
        result, expected = fast(*args), f(*args)
        assert_same(result, expected)
        assert list(map(type, result)) == list(map(type, expected))


def test_unique_of_a_tensor_with_a_gradient_is_left_to_python():
    def f(x):
        return torch.unique(x), x * 2

    for backend in ("aot_eager", "numba"):
        x = X.clone().requires_grad_()
        assert_same(minitorch2.compile(f, backend=backend)(x)[1], f(x)[1])


# Writes that no version tells ---------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["eager", "numba"])
def test_a_branch_on_a_buffer_sees_what_was_written_by_data_before_it(backend):
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.tensor(0.0))

        def forward(self, x):
            self.calls.data.add_(1)
            return x + 1 if self.calls > 2 else x - 1

    ours, theirs = Counting(), Counting()
    compiled = minitorch2.compile(ours, backend=backend)
    for _ in range(4):
        assert_same(compiled(X), theirs(X))


def test_the_count_of_a_constant_is_not_folded_away():
    def f(x):
        n = torch.tensor([0.0, 2.0, 0.0]).nonzero().shape[0]
        return n, torch.arange(n), x + 1

    compiled_and_eager(f, [(X,), (X * 2,)], "numba")


@pytest.mark.parametrize("backend", ["eager", "numba"])
def test_a_division_by_zero_raises_where_no_operator_follows_it(backend):
    def each_divided(x, n):
        for k in x.tolist():
            n // k
        return x

    fast = minitorch2.compile(each_divided, backend=backend)
    for numbers in ([1, 2, 3], [2, 0, 1], [3, -1, 2]):
        x = torch.tensor(numbers)
        if 0 in numbers:
            with pytest.raises(ZeroDivisionError, match="integer division or modulo by zero"):
                fast(x, 7)
        else:
            assert fast(x, 7) is x


# Arithmetic, and branches of which one side raises ------------------------------------------------


@pytest.mark.parametrize("backend", ["eager", "numba"])
def test_extremes_powers_and_quotients_of_numbers_out_of_data_stay_in_the_graph(backend):
    def f(x):
        a, b = x.norm().item(), x.sum().item()
        top, low = max(a, b), min(b, a)
        return x * (top / a) + max(1e-3, low), a**0.5, 1 / (a**0.8), low, a**3

    calls = [(X,), (X * 4,), (-X,), (X * float("nan"),), (X * 1e25,)]
    log = compiled_and_eager(f, calls, backend, fullgraph=True)
    assert log.counts["graphs"] == 1


def test_a_quotient_of_zero_and_a_root_of_less_raise_what_python_raises():
    def inverse(x):
        try:
            return 1 / x.sum().item()
        except ZeroDivisionError as error:
            return str(error)

    def root(x):
        return x.sum().item() ** 0.5

    for function in (inverse, root):
        with pytest.warns(match="ran in Python"):
            log = compiled_and_eager(function, [(X,), (X * 0,), (-X,)])
        assert log.counts["graphs"] == 1 and not log.counts["graph_breaks"]


def test_a_branch_on_a_number_whose_other_side_raises_does_not_break_the_graph():
    def f(x):
        total = x.sum().item()
        if total > 100:
            raise ValueError(f"too much: {total}")
        assert torch.allclose(x, x.abs(), atol=10), "far apart"
        return x + total

    log = compiled_and_eager(f, [(X,), (X * 100,), (-X * 10,), (X + 1,)])
    assert log.counts["graphs"] == 1 and not log.counts["graph_breaks"]
