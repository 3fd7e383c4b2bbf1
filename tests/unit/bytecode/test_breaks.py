"""What happens where a graph ends before its function does."""

import sys

import numpy
import pytest
import torch

from minitorch2 import config, stages
from minitorch2.errors import GraphBreakError
from minitorch2.testing.assertions import assert_same
from tests.unit.bytecode.capturing import capture, check, residual

X = torch.tensor([1.0, -2.0, 3.0])


def test_call_of_print_splits_the_graph():
    def f(x):
        y = x + 1
        print("shape", y.shape)
        return y * 2

    log = check(f, X, graphs=2, breaks=1)
    assert "result = print('shape', " in residual(log)


def test_item_gives_a_number_to_the_continuation():
    def f(x):
        n = x.sum().item()
        return x * n

    check(f, X, graphs=1, breaks=0)
    with config.patch(capture_data_dependent=False):
        check(f, X, graphs=2, breaks=1)


def test_tolist_int_float_and_bool_of_tensors():
    def f(x):
        return x.tolist(), int(x[0]), float(x[1]), bool(x[2] > 0)

    check(f, X, breaks=2)
    with config.patch(capture_data_dependent=False):
        check(f, X, breaks=3)


def _numbers_taken_on(x):
    found = x.tolist()
    x.mul_(2)
    return found, len(found), x + len(found), {"again": found}


def _numbers_with_one_more(x):
    found = (x * 2).tolist()
    found.append(3.0)
    return x + sum(found[:2]), found


@pytest.mark.parametrize(
    ("program", "sizes", "graphs"),
    [(_numbers_taken_on, (2, 3, 40, 50), 1), (_numbers_with_one_more, (2, 3, 5), 3)],
)
def test_a_list_of_a_symbolic_length_is_read_only_if_needed(program, sizes, graphs):
    """Each ``tolist`` of a tensor whose size varied broke the graph."""
    fast = capture(program, dynamic=True, fullgraph=True)
    with stages.collect() as log:
        for n in sizes:
            x = torch.arange(1.0, n + 1)
            assert_same(fast(x.clone()), program(x.clone()))
    assert (log.counts["graphs"], log.counts["frames_as_is"]) == (graphs, 0)


def test_what_numpy_does_otherwise_runs_in_python():
    def f(x):
        y = x * 2
        z = torch.from_numpy(numpy.argsort(y.numpy(), axis=0))
        return z + x

    check(f, X, graphs=2, breaks=1)


def test_branch_on_data_takes_both_ways():
    def f(x):
        y = x * 2
        if y.sum() > 0:
            y = y + 1
        else:
            y = y - 1
        return y

    with stages.collect() as log:
        compiled = capture(f)
        for value in (X, -X, X, -X):
            assert torch.equal(compiled(value), f(value))
    assert log.counts["graphs"] == 3
    assert log.counts["graph_breaks"] == 1


@pytest.mark.parametrize("sign", [1, -1])
def test_conditional_expression_and_short_circuit_on_data(sign):
    def f(x):
        y = (x + 1) if x.sum() > 0 else (x - 1)
        z = (x.sum() > 0) and y.sum()
        w = (x.sum() > 0) or y.max()
        return y, z, w, not x.sum() > 0

    check(f, X * sign, breaks=4)


def test_break_inside_a_loop_goes_on_in_the_loop():
    def f(x):
        for i in range(4):
            x = x + i
            print(i)
        return x

    check(f, X, graphs=3, breaks=3)


def test_break_inside_nested_loops_and_comprehension():
    def f(x):
        total = 0
        for row in [[1, 2], [3]]:
            for value in row:
                total = total + x * value
                print(value)
        return total, [x * i for i in range(2)]

    check(f, X, breaks=3)


def test_while_on_data():
    def f(x):
        steps = 0
        while x.sum() < 50:
            x = x.abs() * 2
            steps += 1
        return x, steps

    check(f, X, breaks=3 if sys.version_info < (3, 12) else 4)


def test_loop_that_breaks_a_thousand_times_neither_nests_nor_compiles_anew():
    def f(x):
        steps = 0
        while x.sum() < 1000:
            x = x + 1
            steps += 1
        return steps

    with stages.collect() as log:
        assert capture(f)(torch.zeros(1)) == 1000
    assert log.counts["frames"] <= 12


def test_iterator_from_outside_is_advanced_in_python():
    def f(x, items):
        for item in items:
            x = x + item
        return x, list(items)

    compiled = capture(f)
    value, rest = compiled(X, iter([1, 2, 3]))
    assert torch.equal(value, X + 6)
    assert rest == []


def test_callee_that_breaks_is_captured_on_its_own():
    def callee(x):
        x = x + 1
        print("callee")
        return x * 2

    def f(x):
        return callee(x * 3) - 1

    log = check(f, X, graphs=4, breaks=2)
    first = log.texts("captured_graph")[0]
    assert "mul" in first
    assert "add" not in first, "the caller's graph holds nothing of the callee"


def test_first_import_is_done_in_python():
    def f(x):
        y = x + 1
        import this_module_is_absent  # noqa: F401

        return y

    check(f, X, breaks=1)


def test_exception_of_an_operator_is_the_users_own():
    def f(x):
        return x + torch.ones(7)

    check(f, X, breaks=1)
    with pytest.raises(RuntimeError, match="size of tensor a"):
        capture(f, fullgraph=True)(X)


def test_fullgraph_raises_with_line_cause_and_fix():
    def f(x):
        if x.sum() > 0:
            return x
        return -x

    with pytest.raises(GraphBreakError) as caught:
        capture(f, fullgraph=True)(X)
    assert "if x.sum() > 0:" in str(caught.value)
    assert "[data-dependent-branch]" in str(caught.value)
    assert "torch.where" in caught.value.fix


def test_fullgraph_passes_the_users_exception():
    def f(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        capture(f, fullgraph=True)(X)


def test_continuations_are_not_compiled_again():
    def f(x):
        x = x + 1
        print("once")
        return x * 2

    compiled = capture(f)
    compiled(X)
    with stages.collect() as log:
        compiled(X)
    assert log.counts["frames"] == 0


def test_a_number_that_varies_is_not_a_constant_for_ever():
    def f(x):
        loss = x.sum().item()
        print(loss)
        return x * 2

    with stages.collect() as log:
        compiled = capture(f)
        for i in range(20):
            compiled(X + i)
    assert log.counts["frames"] <= 6
    assert log.counts["frames_as_is"] == 0


def test_internal_errors_are_logged_and_counted(monkeypatch, caplog):
    from minitorch2.bytecode.evaluation.evaluator import HANDLERS

    def broken(evaluator, instruction):
        raise ZeroDivisionError("bug")

    def f(x):
        return x + 1

    monkeypatch.setitem(HANDLERS, "BINARY_OP", broken)
    with config.patch(suppress_errors=True):
        assert torch.equal(capture(f)(X), X + 1)
    assert any("internal error" in message for message in caplog.messages)
    with config.patch(suppress_errors=False), pytest.raises(ZeroDivisionError):
        capture(f)(X)


def test_length_of_a_data_dependent_result_is_not_baked_in():
    def example1(x):
        if len(torch.nonzero(x)) > 1:
            return x + 1
        return x - 1

    compiled = capture(example1)
    for value in ([0.0, 0.0], [1.0, 1.0], [0.0, 1.0]):
        x = torch.tensor(value)
        assert torch.equal(compiled(x), example1(x))


def test_a_counter_grows_and_random_numbers_differ_at_each_call():
    class Model:
        call_count = 0

        def run(self, x):
            self.call_count += 1
            return torch.rand(10) + x

    model = Model()
    run = capture(model.run)
    first, second = run(torch.zeros(10)), run(torch.zeros(10))
    assert model.call_count == 2
    assert not torch.equal(first, second)


def recursive(x, n):
    if n == 0:
        return x
    print(end="")
    return recursive(x, n - 1) + 1


def test_recursive_function_still_means_the_global_of_its_own_name():
    def f(x):
        return recursive(x, 2)

    compiled = capture(f)
    assert torch.equal(compiled(X), X + 2)


def test_recursion_deeper_than_pythons_stack_allows_to_evaluate():
    def f(x):
        return deeper(x, 150)

    with config.patch(suppress_errors=False):
        assert torch.equal(capture(f)(X), X + 150)


def deeper(x, n):
    return x if n == 0 else deeper(x, n - 1) + 1
