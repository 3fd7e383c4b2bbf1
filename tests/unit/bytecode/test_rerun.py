"""Errors that depend on data: the program sees them as CPython would show them."""

import traceback
import warnings

import pytest
import torch

import minitorch2
from minitorch2 import config, stages
from minitorch2.errors import MinitorchWarning

GOOD, BAD = torch.tensor([0, 2]), torch.tensor([1, 7])
BACKENDS = ("eager", "aot_eager", "numba")


class Log:
    def __init__(self):
        self.count = 0
        self.names = []


def looked_up(table, rows, log):
    log.count += 1
    try:
        table = table.sin()[rows] + 1
    except IndexError as error:
        log.names.append(type(error).__name__)
        return table * 2
    finally:
        log.count += 10
    return table


@pytest.mark.parametrize("backend", BACKENDS)
def test_handlers_see_what_an_operator_of_the_graph_raises(backend):
    compiled, expected, found = minitorch2.compile(looked_up, backend=backend), Log(), Log()
    table = torch.randn(5, 3)
    for rows in (GOOD, BAD, GOOD, BAD):
        torch.testing.assert_close(
            compiled(table, rows, found), looked_up(table, rows, expected), rtol=1e-6, atol=1e-6
        )
        assert vars(found) == vars(expected)
    assert len(compiled.recompiles()) == 1, "the count, a number, changes"


@pytest.mark.parametrize("backend", BACKENDS)
def test_side_effects_before_the_error_happen_and_those_behind_it_do_not(backend):
    def embed(table, rows, log):
        log.count += 1
        found = torch.nn.functional.embedding(rows, table)
        log.count += 10
        return found

    compiled, log = minitorch2.compile(embed, backend=backend), Log()
    compiled(torch.randn(5, 3), GOOD, log)
    with pytest.raises(IndexError, match="out of range") as raised:
        compiled(torch.randn(5, 3), BAD, log)
    assert log.count == 12
    assert raised.value.__context__ is None


def test_traceback_leads_to_the_line_of_the_operator():
    def embed(table, rows):
        table = table + 1
        return torch.nn.functional.embedding(rows, table)  # this line

    compiled = minitorch2.compile(embed, backend="numba")
    with pytest.raises(IndexError) as raised:
        compiled(torch.randn(5, 3), BAD)
    lines = [entry.line for entry in traceback.extract_tb(raised.value.__traceback__)]
    assert lines[1].endswith("# this line")
    assert sum("def embed" in line for line in lines) == 0


def test_the_rest_of_a_function_runs_again_by_itself(capsys):
    def pick(x, *rows, scale=1, **named):
        print("once")
        x = x.cos() * scale
        try:
            return x[rows[0]] + named["shift"]
        except IndexError:
            return x

    compiled = minitorch2.compile(pick, backend="eager")
    x = torch.randn(5)
    torch.testing.assert_close(compiled(x, BAD, scale=2, shift=1), x.cos() * 2)
    torch.testing.assert_close(compiled(x, GOOD, scale=2, shift=1), (x.cos() * 2)[GOOD] + 1)
    assert capsys.readouterr().out == "once\nonce\n"


def test_closures_are_run_again_with_their_cells():
    total = 0

    def count(x, rows):
        nonlocal total
        total += 1
        return x[rows]

    compiled = minitorch2.compile(count, backend="eager")
    for calls, rows in enumerate((GOOD, GOOD, GOOD), 1):
        compiled(torch.randn(5), rows)
        assert total == calls
    with pytest.raises(IndexError):
        compiled(torch.randn(5), BAD)
    assert total == 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_tensors_are_written_once(backend):
    """A backend that writes while something can still fail gets its inputs back as they were."""

    def add_rows(x, rows, log):
        x += 1
        log.count += 1
        try:
            return x[rows] * 2
        except IndexError:
            x[0] = 9
            return x

    compiled, x, log = minitorch2.compile(add_rows, backend=backend), torch.zeros(5), Log()
    assert compiled(x, GOOD, log).tolist() == [2.0, 2.0]
    assert compiled(x, BAD, log) is x
    assert x.tolist() == [9.0] + [2.0] * 4
    assert log.count == 2


def test_parameters_that_are_written_without_gradients_are_given_back():
    def step(weight, rows, log):
        with torch.no_grad():
            weight.mul_(2)
        log.count += 1
        return torch.nn.functional.embedding(rows, weight)

    compiled, log = minitorch2.compile(step, backend="eager"), Log()
    weight = torch.ones(5, 2, requires_grad=True)
    compiled(weight, GOOD, log).sum().backward()
    with pytest.raises(IndexError):
        compiled(weight.detach().requires_grad_(), BAD, log)
    assert log.count == 2 and weight.unique().tolist() == [4.0]


def test_integer_division_by_zero_is_handled():
    def divide(a, b):
        try:
            return a // b
        except RuntimeError:
            return a

    compiled = minitorch2.compile(divide, backend="numba")
    a = torch.tensor([6, 8])
    assert compiled(a, torch.tensor([2, 4])).tolist() == [3, 2]
    assert compiled(a, torch.tensor([2, 0])).tolist() == [6, 8]
    assert compiled(a, 0).tolist() == [6, 8]


def failing(module, inputs):
    def run(*arguments):
        raise RuntimeError("a bug of the backend")

    return run


def row(x, rows):
    return x[rows]


def test_a_backend_that_fails_where_python_does_not_is_blamed():
    compiled = minitorch2.compile(row, backend=failing)
    warned = pytest.warns(MinitorchWarning, match="a bug of the backend")
    with config.patch(suppress_errors=True), warned:
        assert compiled(torch.arange(5), GOOD).tolist() == [0, 2]
    minitorch2.reset()
    with config.patch(suppress_errors=False), pytest.raises(RuntimeError, match="a bug"):
        compiled(torch.arange(5), GOOD)


def test_compiled_code_that_fails_is_given_up_after_one_warning():
    """A kernel that cannot be launched failed the program where nothing else could fail."""
    calls = []

    def failing_once(module, inputs):
        def run(*arguments):
            calls.append(1)
            raise RuntimeError("a bug of the backend")

        return run

    def arithmetic(x):
        return x.sin() @ x + 1

    compiled, x = minitorch2.compile(arithmetic, backend=failing_once), torch.randn(3, 3)
    with (
        config.patch(suppress_errors=True),
        stages.collect() as log,
        pytest.warns(MinitorchWarning, match="a bug") as said,
    ):
        for _ in range(3):
            assert torch.equal(compiled(x), arithmetic(x))
    assert (len(said), len(calls), log.counts["backend_failures"]) == (1, 1, 1)
    one_graph = minitorch2.compile(arithmetic, backend=failing_once, fullgraph=True)
    with pytest.raises(RuntimeError, match="a bug"):
        one_graph(x)


def test_random_numbers_are_drawn_once():
    """The frame that ran again went on with the generator's next numbers."""

    def pick(x, rows):
        noise = torch.rand(3)
        try:
            return x[rows] + noise
        except IndexError:
            return noise + torch.rand(3)

    results = []
    for function in (pick, minitorch2.compile(pick, backend="numba")):
        torch.manual_seed(0)
        results.append([*function(torch.zeros(3), torch.tensor([9, 0, 0])).tolist(), torch.rand(1)])
    assert results[0] == results[1]


def test_retry_takes_the_branch_that_it_takes_in_eager():
    """The check of `cholesky` was dropped: the first try gave NaN and the loop ended."""

    def factor(a):
        jitter, tries = 1e-6, 0
        while True:
            try:
                return torch.linalg.cholesky(a + jitter * torch.eye(3)), tries
            except torch.linalg.LinAlgError:
                jitter, tries = jitter * 10, tries + 1

    a = -torch.eye(3) * 0.05
    expected, tries = factor(a)
    for backend in BACKENDS:
        found, count = minitorch2.compile(factor, backend=backend)(a)
        assert count == tries == 5
        torch.testing.assert_close(found, expected)


def test_data_that_is_not_as_supposed_is_no_fault_of_the_backend():
    """Squeezing what may have one element: the graph supposes that it has more."""

    def f(x):
        return x.nonzero().squeeze() + 1

    compiled = minitorch2.compile(f, backend="eager", options={"suppress_errors": False})
    rows = [[1, 1, 0], [0, 1, 0], [0, 0, 1], [0, 1, 1]]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for x in map(torch.tensor, rows):
            torch.testing.assert_close(compiled(x), f(x))
    assert ["a call that does not meet it ran in Python" in str(w.message) for w in said] == [True]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_write_by_data_is_undone_before_python_runs_the_call_again(backend):
    def added_and_looked_up(table, rows):
        table.data.add_(1)
        return table[rows]

    compiled, table = minitorch2.compile(added_and_looked_up, backend=backend), torch.zeros(3)
    compiled(table, GOOD)
    with pytest.raises(IndexError):
        compiled(table, BAD)
    assert table.tolist() == [2, 2, 2]
