"""Which compiled entry serves a call; limits; threads; objects that die."""

import functools
import gc
import inspect
import threading
from pathlib import Path

import pytest
import torch

import minitorch2
from minitorch2 import config, stages
from minitorch2.bytecode.dispatch import Dispatcher
from minitorch2.bytecode.frames import skip_files
from minitorch2.errors import GraphBreakError, MinitorchWarning
from minitorch2.foundation.generated_code import DISPATCHER
from tests.unit.bytecode.capturing import capture

X = torch.tensor([1.0, -2.0, 3.0])


def frames_of(function, *calls):
    """How many frames were compiled for these calls, each a tuple of arguments."""
    with stages.collect() as log:
        for args in calls:
            function(*args)
    return log.counts["frames"]


def test_entries_are_kept_and_tried_in_order():
    compiled = capture(lambda x, n: x * n)
    assert frames_of(compiled, (X, 1)) == 1
    assert frames_of(compiled, (X, 2)) == 1
    assert frames_of(compiled, (X, 1), (X, 2), (X + 1, 1)) == 0


def test_another_autocast_dtype_is_captured_again():
    """Only whether autocast was on used to be guarded: the casts of the first dtype stayed."""
    compiled = minitorch2.compile(lambda x: x @ x, backend="aot_eager")
    x = torch.randn(4, 4)
    for dtype in (torch.bfloat16, torch.float16, torch.bfloat16):
        with torch.autocast("cpu", dtype=dtype):
            assert compiled(x).dtype is dtype
            assert frames_of(compiled, (x,)) == 0
    assert compiled(x).dtype is torch.float32


def test_the_autocast_dtype_that_a_region_does_not_name_is_guarded():
    def program(x):
        later = torch.autocast("cpu")
        with torch.autocast("cpu", dtype=torch.float16), later:
            return x @ x

    compiled = minitorch2.compile(program, backend="aot_eager")
    x, before = torch.randn(4, 4), torch.get_autocast_dtype("cpu")
    try:
        for dtype in (torch.bfloat16, torch.float16):
            torch.set_autocast_dtype("cpu", dtype)
            assert compiled(x).dtype is program(x).dtype is dtype
            assert frames_of(compiled, (x,)) == 0
    finally:
        torch.set_autocast_dtype("cpu", before)


@pytest.mark.parametrize(
    "other",
    [
        X.double(),
        X[:2],
        X[None],
        torch.nn.Parameter(X),
        X.clone().requires_grad_(),
        torch.stack([X, X], 1)[:, 0],
        X.to("meta"),
    ],
)
def test_a_tensor_of_other_metadata_is_captured_again(other):
    compiled = capture(lambda x: x + 1)
    assert frames_of(compiled, (X,), (X * 2,)) == 1
    assert frames_of(compiled, (other,)) == 1


def test_grad_mode_and_default_dtype_are_guarded():
    compiled = capture(lambda x: x + torch.ones(3))
    assert frames_of(compiled, (X,)) == 1
    with torch.no_grad():
        assert frames_of(compiled, (X,), (X,)) == 1
    torch.set_default_dtype(torch.float64)
    try:
        assert compiled(X).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_recompile_limit_warns_once_and_runs_eagerly(caplog):
    def modal(x, mode):
        return x + len(mode[0])

    compiled = capture(modal)
    with config.patch(recompile_limit=3), pytest.warns(MinitorchWarning, match="modal") as found:
        count = frames_of(compiled, *[(X, ["m" * i]) for i in range(6)])
    assert count == 3
    assert [warning.filename for warning in found] == [__file__]
    assert torch.equal(compiled(X, ["long"]), X + 4)
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "modal" in warnings[0]
    assert "mode[0]" in warnings[0]
    assert "Fix:" in warnings[0]


def test_recompile_limit_with_fullgraph_is_an_error():
    compiled = capture(lambda x, items: x + items[0], fullgraph=True)
    with config.patch(recompile_limit=2), pytest.raises(GraphBreakError, match="compiled 2 times"):
        for number in (1j, 2j, 3j):
            compiled(X, [number])


def test_entry_is_dropped_when_a_guarded_object_dies():
    def f(x, cls):
        return x + isinstance(x, cls)

    compiled, cls = capture(f), type("Local", (), {})
    compiled(X, cls)
    dispatcher = compiled.__globals__[DISPATCHER]
    assert len(dispatcher.entries) == 1
    del cls
    gc.collect()
    assert len(dispatcher.entries) == 0


@pytest.mark.parametrize("collect", [gc.collect, int])
def test_entries_that_died_count_for_the_limit(collect):
    """A class that is made at each call does not make a compilation of each call."""

    def f(x, cls):
        return x + isinstance(x, cls)

    compiled = capture(f, recompile_limit=3)
    with stages.collect() as log, pytest.warns(MinitorchWarning, match="compiled 3 times"):
        for _ in range(6):
            assert torch.equal(compiled(X, type("Local", (), {})), X)
            collect()
    assert log.counts["frames"] == 3


def test_a_class_statement_inside_the_function_is_compiled_once():
    def f(x):
        class Shift:
            amount = 2

        return x + Shift.amount

    compiled = capture(f, fullgraph=True)
    with stages.collect() as log:
        for _ in range(6):
            assert torch.equal(compiled(X), X + 2)
    assert log.counts["frames"] == log.counts["graphs"] == 1


def test_reset_forgets_everything():
    compiled = capture(lambda x: x + 1)
    assert frames_of(compiled, (X,), (X,)) == 1
    minitorch2.reset()
    assert frames_of(compiled, (X,), (X,)) == 1


def test_a_function_that_could_not_be_captured_is_not_analysed_again():
    def program(x):
        return eval("x") + 1

    compiled = capture(program)
    with stages.collect() as log:
        for _ in range(3):
            compiled(X)
    assert len(log.texts("source.py")) == log.counts["frames_as_is"] == 1


def test_threads_share_entries():
    compiled = capture(lambda x: (x + 1) * 2)
    counts, errors = [], []

    def work():
        try:
            counts.append(frames_of(compiled, *[(X,)] * 50))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert sum(counts) == 1


def test_other_threads_are_not_captured():
    seen = []

    def f(x):
        thread = threading.Thread(target=lambda: seen.append(torch.ones(2) + 1))
        thread.start()
        thread.join()
        return x + 1

    capture(f)(X)
    assert torch.equal(seen[0], torch.ones(2) + 1)


def test_signature_defaults_and_metadata_are_the_users():
    def f(a, /, b: int = 2, *args, k=3, **named) -> torch.Tensor:
        """Doc."""
        return a * b + k + sum(args) + sum(named.values())

    compiled = capture(f)
    assert inspect.signature(compiled) == inspect.signature(f)
    assert (compiled.__name__, compiled.__doc__, compiled.__wrapped__) == ("f", "Doc.", f)
    assert compiled.__module__ == f.__module__
    for args, named in [((X,), {}), ((X, 3, 4), {"k": 1, "z": 5}), ((X,), {"b": 7})]:
        assert torch.equal(compiled(*args, **named), f(*args, **named))


def test_wrong_call_raises_the_same_type_error():
    def f(a, b):
        return a + b

    compiled = capture(f)
    with pytest.raises(TypeError) as wanted:
        f(X)
    with pytest.raises(TypeError) as given:
        compiled(X)
    assert "missing 1 required positional argument: 'b'" in str(given.value)
    assert "missing 1 required positional argument: 'b'" in str(wanted.value)


def test_functions_of_one_code_and_different_cells_do_not_mix():
    def make(n):
        return lambda x: x + n

    one, two = capture(make(1)), capture(make(2))
    for _ in range(2):
        assert torch.equal(one(X), X + 1)
        assert torch.equal(two(X), X + 2)


def test_global_function_that_is_replaced_is_captured_again(monkeypatch):
    compiled = capture(uses_helper)
    assert torch.equal(compiled(X), X + 1)
    monkeypatch.setitem(globals(), "replaced", lambda x: x + 5)
    assert torch.equal(compiled(X), X + 5)


def replaced(x):
    return x + 1


def uses_helper(x):
    return replaced(x)


def test_failures_say_which_guard_and_why():
    compiled = capture(lambda x, n: x * n)
    compiled(X, 1)
    dispatcher = compiled.__globals__[DISPATCHER]
    assert isinstance(dispatcher, Dispatcher)
    (failure,) = dispatcher.failures((X.double(), 1))
    assert failure.what == "dtype"
    assert "float64" in failure.actual


def test_backward_works_through_captured_code():
    def f(x, w):
        y = (x * w).sin()
        print("break")
        return (y * w).sum()

    x, w = X.clone().requires_grad_(), torch.ones(3, requires_grad=True)
    wanted = torch.autograd.grad(f(x, w), [x, w])
    given = torch.autograd.grad(capture(f)(x, w), [x, w])
    torch.testing.assert_close(given, wanted)


def test_a_wrapper_of_a_compiled_function_is_a_function_of_its_own():
    """`functools.wraps` copied the mark of the compiled function: the wrapper was skipped."""

    def hundredfold(function):
        @functools.wraps(function)
        def outer(x):
            return function(x) * 100

        return outer

    wrapper = hundredfold(minitorch2.compile(lambda x: x + 1, backend="eager"))
    x = torch.ones(2)
    assert torch.equal(minitorch2.compile(wrapper, backend="eager")(x), wrapper(x))
    assert torch.equal(minitorch2.compile(lambda x: wrapper(x), backend="eager")(x), wrapper(x))


def test_every_place_of_our_own_that_capture_knows_exists():
    own = (skip_files.MARKS, skip_files.COLLECTIVES, *skip_files.STAND_INS, *skip_files.COMPILER)
    assert [place for place in own if not Path(place).exists()] == []
