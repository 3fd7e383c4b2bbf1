"""Exceptions of compiled functions: type, arguments, causes and tracebacks are CPython's."""

import gc
import traceback
import warnings
import weakref

import pytest
import torch

import minitorch2
from minitorch2 import config
from minitorch2.errors import GraphBreakError
from tests.unit.bytecode.capturing import capture

X = torch.tensor([1.0, -2.0, 3.0])


def raised(function, *args):
    """The exception of a call, with the lines of this file and of torch that it passed."""
    try:
        function(*args)
    except Exception as error:
        entries = traceback.extract_tb(error.__traceback__)[1:]
        return error, [(entry.filename, entry.lineno, entry.name) for entry in entries]
    raise AssertionError("nothing was raised")


def assert_same_exception(function, *args):
    compiled = capture(function)
    error, wanted = raised(function, *args)
    for _ in range(2):
        given_error, given = raised(compiled, *args)
        assert given == wanted
        assert (type(given_error), given_error.args) == (type(error), error.args)
        assert type(given_error.__cause__) is type(error.__cause__)


def fails(x):
    y = x + 1
    raise ValueError("bad", y.shape)


def test_raised_in_a_called_function():
    def f(x):
        x = x * 2
        return fails(x)

    assert_same_exception(f, X)


def test_raised_by_an_operator():
    def f(x):
        x = x * 2
        return torch.cat([x, x.reshape(3, 1)])

    assert_same_exception(f, X)


def test_raised_behind_breaks_is_one_entry_a_function():
    def f(x):
        print(end="")
        x = x + 1
        print(end="")
        return fails(x)

    assert_same_exception(f, X)


def test_raised_from_another():
    def f(x):
        try:
            print(end="")
            int("no number")
        except ValueError as error:
            raise KeyError("k") from error
        return x

    assert_same_exception(f, X)


def test_raised_by_a_function_of_a_hooked_frame():
    def middle(x):
        print(end="")
        return fails(x)

    def f(x):
        return [middle(y) for y in (x, x)]

    assert_same_exception(f, X)


def test_raised_in_a_module():
    class Module(torch.nn.Module):
        def forward(self, x):
            return fails(x * 2)

    error, lines = raised(capture(Module()), X)
    assert lines[-1][2] == "fails"
    assert not [file for file, _, _ in lines if "minitorch2" in file.replace(__file__, "")]
    assert error.args[0] == "bad"


def test_verbose_tracebacks_keep_all():
    with config.patch(verbose_tracebacks=True):
        _, lines = raised(capture(fails), X)
    assert any("dispatch" in name for _, _, name in lines)


def test_own_errors_hide_frames_too_and_internal_errors_do_not():
    def f(x):
        print(x)

    error, lines = raised(capture(f, fullgraph=True), X)
    assert isinstance(error, GraphBreakError)
    assert lines == []

    def broken(module, inputs):
        raise RuntimeError("in the backend")

    error, lines = raised(capture_with(broken), X)
    assert "in the backend" in str(error)
    assert error.__cause__.__traceback__ is not None


def capture_with(backend):
    return minitorch2.compile(lambda x: x + 1, backend=backend)


def test_frames_do_not_stay_alive():
    class Big:
        pass

    def f(x, big):
        raise ValueError(x.sum())

    big = Big()
    alive = weakref.ref(big)
    with pytest.raises(ValueError):
        capture(f)(X, big)
    del big
    gc.collect()
    assert alive() is None


def warns(x):
    y = x + 1
    warnings.warn("look", stacklevel=2)
    return y * 2


def test_warnings_point_to_the_caller():
    compiled = capture(warns)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            warns(X), compiled(X)
        assert found[0].filename == found[1].filename
        assert found[0].lineno == found[1].lineno
