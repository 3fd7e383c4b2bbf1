"""try, with and raise: inside the graph, across breaks, and out of the function."""

import contextlib
import sys
import traceback

import pytest
import torch

from tests.unit.bytecode.capturing import capture, check

X = torch.tensor([1.0, -2.0, 3.0])


class Custom(ValueError):
    pass


def test_raised_and_caught_inside():
    def f(x):
        try:
            raise ValueError("a", 1)
        except (KeyError, ValueError) as error:
            return x + len(error.args)
        finally:
            x = x * 2

    check(f, X, graphs=1)


def test_user_exception_classes_are_caught_by_their_bases():
    def f(x):
        try:
            raise Custom("mine")
        except ValueError as error:
            return x + len(str(error)), type(error) is Custom

    check(f, X, graphs=1)


def test_errors_of_folded_operations_are_caught():
    def f(x):
        found = 0
        for operation in (lambda: 1 // 0, lambda: {}["k"], lambda: [][3], lambda: int("q")):
            try:
                operation()
            except (ZeroDivisionError, LookupError, ValueError):
                found += 1
        return x + found

    check(f, X, graphs=1)


def test_break_inside_try_goes_on_in_the_handler():
    def f(x):
        y = x + 1
        try:
            print("in try")
            y = y * 2
            int(str(x.shape))
        except ValueError:
            y = y * 3
            print("caught", sys.exc_info()[0].__name__)
        else:
            y = y * 5
        finally:
            print("finally")
        return y

    check(f, X, breaks=3)


def test_exception_of_a_broken_call_is_caught():
    def fail(x):
        print("failing")
        raise KeyError(x.shape[0])

    def f(x):
        y = x * 2
        try:
            fail(y)
        except KeyError as error:
            return y + error.args[0]

    check(f, X, breaks=3)


def test_exception_leaves_the_function_after_its_effects():
    def f(x, items):
        items.append(x * 2)
        raise Custom("out")

    check(f, X, [], graphs=1, breaks=1)


def test_chained_exceptions():
    def f(x):
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error

    with pytest.raises(ValueError, match="second") as caught:
        capture(f)(X)
    assert isinstance(caught.value.__cause__, KeyError)


def from_handled(x):
    y = x.sin()
    try:
        print(end="")
        int("no")
    except ValueError as error:
        print(end="")
        raise KeyError(y.shape) from error


def from_none(x):
    try:
        raise ValueError(x.sin().shape)
    except ValueError:
        print(end="")
        raise KeyError("second") from None


def without_cause(x):
    try:
        raise ValueError(x.sin().shape)
    except ValueError:
        print(end="")
        raise KeyError("second")  # noqa: B904


def from_another(x):
    other = RuntimeError(x.sin().shape)
    try:
        print(end="")
        int("no")
    except ValueError:
        print(end="")
        raise KeyError("second") from other


def behind_a_branch(x):
    y = x + 1
    try:
        raise ValueError("first")
    except ValueError as error:
        if y.sum() > 0:
            raise KeyError("second") from error
        raise IndexError(1) from error


def in_finally(x):
    try:
        int("no" + str(x.tolist()))
    finally:
        print(end="")
        raise KeyError(1)


def three_deep(x):
    y = x + 1
    try:
        try:
            print(end="")
            int("no")
        except ValueError as first:
            print(end="")
            raise KeyError(y.shape) from first
    except KeyError as second:
        print(end="")
        raise IndexError(2) from second


def from_a_call(x):
    y = x + 1
    try:
        from_handled(y)
    except KeyError as error:
        print(end="")
        raise IndexError(2) from error


def outside_the_handler(x):
    y, saved = x + 1, None
    try:
        int("no")
    except ValueError as error:
        saved = error
    print(end="")
    raise KeyError(y.shape) from saved


def chain(error):
    """An exception with all that is behind it."""
    if error is None:
        return None
    behind = chain(error.__cause__), chain(error.__context__), error.__suppress_context__
    return type(error), error.args, *behind


@pytest.mark.parametrize(
    "function",
    [
        *(from_handled, from_none, without_cause, from_another, behind_a_branch, in_finally),
        *(three_deep, from_a_call, outside_the_handler),
    ],
)
def test_causes_and_contexts_across_breaks(function):
    compiled = capture(function)
    with pytest.raises(LookupError) as wanted:
        function(X)
    for _ in range(2):
        with pytest.raises(LookupError) as given:
            compiled(X)
        assert chain(given.value) == chain(wanted.value)


def test_traceback_shows_the_users_line():
    def f(x):
        y = x + 1
        raise ValueError(y.shape)  # this line

    with pytest.raises(ValueError, match="Size") as caught:
        capture(f)(X)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert last.filename == __file__
    assert last.line == "raise ValueError(y.shape)  # this line"
    assert last.name.endswith("f")


def test_user_context_manager_is_inlined():
    class Scale:
        def __init__(self, log):
            self.log = log

        def __enter__(self):
            self.log.append("enter")
            return 3

        def __exit__(self, kind, error, trace):
            self.log.append(getattr(kind, "__name__", None))
            return kind is ValueError

    def f(x, log):
        with Scale(log) as factor:
            x = x * factor
        with Scale(log):
            raise ValueError
        return x

    check(f, X, [], graphs=1)


def test_context_manager_around_a_break():
    class Noting:
        def __init__(self, log):
            self.log = log

        def __enter__(self):
            self.log.append("enter")

        def __exit__(self, *exc):
            self.log.append("exit")

    def f(x, log):
        with Noting(log):
            x = x + 1
            print("inside", log)
            x = x * 2
        return x, log

    check(f, X, [], breaks=1)


def test_generator_context_manager():
    @contextlib.contextmanager
    def doubled(x):
        yield x * 2

    def f(x):
        with doubled(x) as y:
            return y + 1

    capture_value = capture(f)(X)
    assert torch.equal(capture_value, X * 2 + 1)


def test_no_grad_is_part_of_the_graph():
    def f(x):
        with torch.no_grad():
            y = x * 2
        z = y + x
        with torch.no_grad(), torch.enable_grad():
            z = z * x
        return y.requires_grad, z

    x = X.clone().requires_grad_()
    check(f, x, graphs=1)


def test_no_grad_around_a_break_does_not_leak():
    def f(x):
        with torch.no_grad():
            y = x * 2
            print(torch.is_grad_enabled())
            y = y + x
        return y, x * 3

    check(f, X.clone().requires_grad_(), breaks=1)
    assert torch.is_grad_enabled()


def test_grad_mode_is_restored_when_a_broken_call_raises():
    def fail():
        print("failing")
        raise KeyError

    def f(x):
        with torch.no_grad():
            y = x * 2
            fail()
        return y

    with pytest.raises(KeyError):
        capture(f)(X)
    assert torch.is_grad_enabled()


def test_assertion_error():
    def f(x, n):
        assert n > 1, f"n is {n}"
        return x + n

    check(f, X, 2, graphs=1)
    with pytest.raises(AssertionError, match="n is 0"):
        capture(f)(X, 0)
