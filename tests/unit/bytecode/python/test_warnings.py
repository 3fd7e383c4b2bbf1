# ruff: noqa: B028 (a warning without a stacklevel is what is tested)
"""Warnings of captured code: issued for the line, in the order and as often as in CPython."""

import warnings

import pytest
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.errors import GraphBreakError

X = torch.arange(6.0).reshape(2, 3)


class Own(UserWarning):
    """A category of the user's."""


def seen(function, x, action="always"):
    """What a call gives or raises, and the warnings that it shows."""
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter(action)
        try:
            result = function(x)
        except Warning as error:
            result = type(error), str(error)
    shown = [(w.category, str(w.message), w.filename, w.lineno, w.source) for w in log]
    return result, shown


def check(function, *actions, graphs=1):
    """Compare two calls under each action with CPython's: one graph each."""
    with stages.collect() as log:
        fast = minitorch2.compile(function, backend="eager", fullgraph=True)
        for action in actions or ("always", "always"):
            wanted, shown = seen(function, X.clone(), action)
            result, given = seen(fast, X.clone(), action)
            assert str(result) == str(wanted)
            assert given == shown
    assert log.counts["graph_breaks"] == log.counts["frames_as_is"] == 0
    assert log.counts["graphs"] == graphs


def plain(x):
    y = x.sin()
    warnings.warn("plain")
    warnings.warn(f"rows: {x.shape[0]}", category=Own, stacklevel=1)
    warnings.warn(DeprecationWarning("made", 3), stacklevel=2)
    return y + 1


def repeated(x):
    for _ in range(3):
        warnings.warn("each time")
        x = x + 1
    return x


def above(x):
    warnings.warn("the caller's line", stacklevel=2)
    return x * 2


def inlined(x):
    return above(x) + above(x)


def too_high(x):
    warnings.warn("nobody's line", stacklevel=1000)
    return x * 2


def caught(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("hidden")
        y = x + 1
    warnings.warn("shown")
    return y


def recorded(x):
    with warnings.catch_warnings(record=True) as log:
        warnings.filterwarnings("ignore", message="qui.t", category=UserWarning)
        warnings.filterwarnings("always", category=RuntimeWarning, append=False)
        warnings.warn("quiet")
        warnings.warn("loud", RuntimeWarning)
        y = x + len(log)
    return y, [(w.category, str(w.message), w.lineno) for w in log]


def once_each(x):
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("default")
        for _ in range(2):
            warnings.warn("here")
        warnings.warn("here")
    return x + 1, [w.lineno for w in log]


def as_error(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            warnings.warn("fatal", Own)
        except Own as error:
            return x + 1, str(error)


def nested(x):
    with warnings.catch_warnings(record=True) as outer:
        warnings.simplefilter("always")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("inner")
        warnings.warn("outer")
    return x + 1, [str(w.message) for w in outer]


def wrong_category(x):
    try:
        warnings.warn("text", int)
    except TypeError as error:
        return x + 1, str(error)


PROGRAMS = [plain, repeated, inlined, too_high, caught, recorded, once_each, as_error, nested]


@pytest.mark.parametrize("function", [*PROGRAMS, wrong_category])
def test_a_warning_is_issued_by_residual_code(function):
    check(function)


def test_filters_that_make_an_error_of_a_warning_are_guarded():
    check(plain, "always", "error", "ignore", "error", "always", graphs=1)


def test_default_filters_show_a_warning_once_for_each_line():
    globals().pop("__warningregistry__", None)
    check(repeated, "default", "default")


def test_a_warning_comes_between_other_effects():
    """What shows warnings sees the writes that came before."""
    seen_then = []
    log = []

    def function(x):
        log.append(1)
        warnings.warn("now")
        return x + 1

    fast = minitorch2.compile(function, backend="eager", fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda *_: seen_then.append(list(log))
        fast(X)
        fast(X)
    assert seen_then == [[1], [1, 1]]


@minitorch2.disable
def untraced():
    return 1


def in_a_later_part(x):
    y = x + untraced()
    warnings.warn("of the caller", stacklevel=2)
    return y * 2


def test_behind_a_break_the_caller_is_the_first_parts():
    fast = minitorch2.compile(in_a_later_part, backend="eager")
    wanted, given = seen(in_a_later_part, X), seen(fast, X)
    assert str(given) == str(wanted)


def recorded_around_a_break(x):
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        warnings.warn("one")
        y = x + untraced()
        warnings.warn("two")
    return y, [str(w.message) for w in log]


class Warner(torch.nn.Module):
    """Warns for its caller, which is PyTorch."""

    def forward(self, x):
        warnings.warn("forward", stacklevel=2)
        return x * 2


MODULE = Warner()


def around_a_module(x):
    return MODULE(x) + 1


@pytest.mark.parametrize("function", [recorded_around_a_break, around_a_module])
def test_what_a_break_does_is_right(function):
    fast = minitorch2.compile(function, backend="eager")
    for _ in range(2):
        wanted, given = seen(function, X), seen(fast, X)
        assert str(given) == str(wanted)


def test_a_warning_that_is_an_error_for_some_callers_is_a_break():
    def function(x):
        warnings.warn("elsewhere", stacklevel=2)
        return x + 1

    with warnings.catch_warnings():
        warnings.filterwarnings("error", module="some_module")
        with pytest.raises(GraphBreakError, match="for some callers") as broken:
            minitorch2.compile(function, backend="eager", fullgraph=True)(X)
        assert broken.value.code == "warning"
        with pytest.warns(UserWarning, match="elsewhere"):
            assert minitorch2.compile(function, backend="eager")(X).equal(X + 1)
