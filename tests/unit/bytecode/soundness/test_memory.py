"""Nothing that is dropped stays: functions, regions, frames, tensors, code."""

import gc
import linecache
import weakref

import pytest
import torch

import minitorch2
from tests.unit.bytecode.capturing import capture

X = torch.tensor([1.0, -2.0, 3.0])


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        y = self.linear(x)
        print(end="")
        return y.relu()


def outside(x):
    return x + 1


def cycle_of_closures():
    def f(x):
        y = outside(x.sin())
        print(end="")
        return (lambda: y)() * 2

    capture(f)(X)


def cycle_of_modules():
    capture(Module())(X)


def cycle_of_new_code():
    exec(
        "def f(x):\n    y = x.sin()\n    print(end='')\n    return y * 2", space := {"torch": torch}
    )
    capture(space["f"])(X)


KEPT = capture(lambda x: x.cos() * 2)


def cycle_of_reset():
    KEPT(X)
    minitorch2.reset()


KERNELS = minitorch2.compile(lambda x: x.cos() * 3, backend="numba")


def cycle_of_kernels():
    """The same kernel had a new launcher each time, which lives as long as the process."""
    KERNELS(X)
    minitorch2.reset()


def failing(x):
    raise ValueError(x.sum())


def cycle_of_exceptions():
    with pytest.raises(ValueError):
        capture(failing)(X)


@pytest.mark.parametrize(
    "cycle",
    [
        cycle_of_closures,
        cycle_of_modules,
        cycle_of_new_code,
        cycle_of_reset,
        cycle_of_kernels,
        cycle_of_exceptions,
    ],
)
def test_cycles_of_compile_call_and_drop_keep_nothing(cycle):
    """A third of an object a cycle would be seen: that is one object in three compilations."""
    cycles = 60
    for _ in range(20):
        cycle()
    gc.collect()
    objects, lines = len(gc.get_objects()), len(linecache.cache)
    for _ in range(cycles):
        cycle()
    gc.collect()
    assert len(gc.get_objects()) - objects < cycles / 3
    assert len(linecache.cache) - lines < cycles / 3


def test_dropped_functions_are_freed_with_all_that_they_hold():
    class Thing:
        pass

    def make():
        thing = Thing()

        def f(x):
            thing.last = 1
            return x + 1

        return f, thing

    f, thing = make()
    compiled = capture(f)
    compiled(X)
    alive = [weakref.ref(value) for value in (f, f.__code__, thing, compiled)]
    del f, thing, compiled
    gc.collect()
    # The code is a constant of `make`; the rest must be gone.
    assert [ref() is None for ref in alive] == [True, False, True, True]


def test_arguments_and_results_are_not_kept():
    compiled = capture(lambda x, items: (x + items[0]).sin())
    x, item = torch.ones(3), torch.ones(3)
    result = compiled(x, [item])
    alive = [weakref.ref(value) for value in (x, item, result)]
    del x, item, result
    gc.collect()
    assert [ref() for ref in alive] == [None, None, None]


def test_collection_and_finalizers_while_capturing():
    """The collector runs inside the capture; a finalizer calls another compiled function."""
    other, calls = capture(lambda x: x * 3), []

    class Loop:
        def __init__(self):
            self.me = self

        def __del__(self):
            calls.append(torch.equal(other(X), X * 3))

    def f(x):
        y = x + 1
        print(end="")
        return y * 2

    thresholds = gc.get_threshold()
    gc.set_threshold(5, 2, 2)
    try:
        for _ in range(3):
            Loop()
            assert torch.equal(capture(f)(X), (X + 1) * 2)
    finally:
        gc.set_threshold(*thresholds)
    gc.collect()
    assert calls == [True] * 3


def test_entries_that_die_while_others_are_added_stay_away():
    """A collection between reading and showing the entries brought a dropped entry back."""

    def f(x, cls):
        return x + isinstance(x, cls)

    compiled = capture(f)
    thresholds = gc.get_threshold()
    gc.set_threshold(3, 1, 1)
    try:
        for number in range(6):
            cls = type("Local", (), {"number": number})
            assert torch.equal(compiled(X, cls), X)
            del cls
    finally:
        gc.set_threshold(*thresholds)
    gc.collect()
    assert torch.equal(compiled(X, torch.Tensor), X + 1)
    assert torch.equal(compiled(X, int), X)
