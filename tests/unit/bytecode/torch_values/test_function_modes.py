"""`TorchFunctionMode`: entered inside of captured code and around it, nested, across breaks."""

import contextlib

import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import minitorch2
from minitorch2 import stages
from minitorch2.testing.assertions import assert_same
from tests.unit.bytecode.torch_values.test_tensor_subclasses import (
    SEEN,
    Logging,
    check,
    outcome,
    tensor,
)


class Noting(TorchFunctionMode):
    """Notes what it sees under a name."""

    def __init__(self, name):
        self.name = name

    def __torch_function__(self, func, types, args=(), kwargs=None):
        SEEN.append((self.name, func.__name__))
        return func(*args, **(kwargs or {}))


class Adding(TorchFunctionMode):
    """Changes a result, by a call that modes around it see."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result + 1 if func is torch.Tensor.mul else result


class Refusing(TorchFunctionMode):
    """Leaves all to classes."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return NotImplemented if types else func(*args, **(kwargs or {}))


def nested(x):
    with Noting("outer"):
        y = x * 2
        with Adding():
            z = torch.add(y, 1) * 3
        made = torch.zeros(2)
    return y, z, made, x * 2


def all_sorts(x):
    with Noting("m"):
        shapes = x.shape, x.T, len(x), x[0], -x, x > 1, 1 - x
        return shapes, F.softmax(x, -1), torch.stack([x, x]), x.sum(0)


def without_gradients(x):
    with Noting("m"):
        with torch.no_grad():
            y = x * 2
        return y, x * 2


def with_break(x):
    with Noting("m"):
        y = x * 2
        minitorch2.graph_break()
        z = y + 1
    return z * 3


@pytest.mark.parametrize("program", [nested, all_sorts, without_gradients])
def test_inside(program):
    check(program, lambda: (tensor(requires_grad=True),), fullgraph=True)


def test_across_a_break():
    check(with_break, lambda: (tensor(),), graphs=2)


@contextlib.contextmanager
def three():
    with Noting("o"), Adding(), Noting("i"):
        yield


@contextlib.contextmanager
def device_and_mode():
    with torch.device("meta"), Noting("m"):
        yield


def places(x):
    return x * 2, torch.ones(3).device, torch.empty(2, device="cpu").device


AROUND = {
    "one": (lambda x: (x * 2 + 1, x.shape, torch.zeros(3)), lambda: Noting("m"), torch.Tensor),
    "three": (lambda x: (x * 2 + 1, torch.ones(3)), three, torch.Tensor),
    "a class below": (lambda x: (x * 2 + 1, torch.ones(3)), three, Logging),
    "inside and around": (nested, three, torch.Tensor),
    "a default device": (places, device_and_mode, torch.Tensor),
    "a default device alone": (places, lambda: torch.device("meta"), torch.Tensor),
}


@pytest.mark.parametrize("name", AROUND)
def test_around(name):
    program, mode, cls = AROUND[name]

    def under(function):
        def run(x):
            with mode():
                return function(x)

        return run

    expected = outcome(under(program), lambda: (tensor(cls),))
    for backend in ("eager", "numba"):
        with stages.collect() as log:
            compiled = minitorch2.compile(program, fullgraph=True, backend=backend)
            for _ in range(2):
                assert outcome(under(compiled), lambda: (tensor(cls),)) == expected
        assert log.counts["graphs"] == 1


def test_which_modes_are_active_is_guarded():
    """Only their number was."""
    program = lambda x: x * 2  # noqa: E731
    compiled = minitorch2.compile(program, fullgraph=True)
    modes = [contextlib.nullcontext(), Noting("1"), Noting("2"), Adding(), contextlib.nullcontext()]
    for mode in modes:
        with mode:
            assert outcome(compiled, lambda: (tensor(),)) == outcome(program, lambda: (tensor(),))


def test_a_mode_that_leaves_it_to_classes():
    def program(x):
        with Refusing():
            return x * 2

    check(program, lambda: (tensor(Logging),), fullgraph=True)


def test_devices_inside():
    def program(x):
        with torch.device("meta"):
            a, device = torch.ones(3), torch.get_default_device()
            with torch.device("cpu"):
                b = torch.ones(3)
        return a.device, b.device, device, torch.ones(2).device, x + b

    check(program, lambda: (tensor(),), fullgraph=True)


def test_devices_across_a_break():
    def program(x):
        with torch.device("meta"):
            a = torch.ones(3) + x.to("meta")
            minitorch2.graph_break()
            b = torch.ones(3) + 1
        return a.device, b.device, torch.ones(2).device, x + 1

    check(program, lambda: (tensor(),), graphs=2)


def test_the_default_device_is_guarded():
    compiled = minitorch2.compile(lambda: torch.ones(2).device, fullgraph=True)
    try:
        for device in ("cpu", "meta", "cpu"):
            torch.set_default_device(device)
            assert compiled() == torch.device(device)
    finally:
        torch.set_default_device(None)
    assert compiled() == torch.device("cpu")


class Operators(TorchDispatchMode):
    """Notes operators."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        SEEN.append(str(func))
        return func(*args, **(kwargs or {}))


def test_a_dispatch_mode_inside():
    """It must see each operator: Python runs what it is around."""

    def program(x):
        y = x + 1
        with Operators():
            z = y * 2 + 1
        return z * 2

    expected = outcome(program, lambda: (tensor(),))
    compiled = minitorch2.compile(program)
    for _ in range(2):
        assert outcome(compiled, lambda: (tensor(),)) == expected


def _sets_and_ends(x):
    torch.set_default_device("meta")
    z = torch.ones(2)
    torch.set_default_device(None)
    return x + torch.ones(3), z.device


def _sets(x):
    torch.set_default_device("meta")
    return x + 1, torch.ones(3).device, torch.get_default_device()


@pytest.mark.parametrize("function", [_sets_and_ends, _sets])
def test_a_default_device_is_set_inside(function):
    def run(call):
        try:
            return call(torch.ones(3)), torch.empty(1).device, torch.get_default_device()
        finally:
            torch.set_default_device(None)

    fast = minitorch2.compile(function, backend="eager", fullgraph=True)
    assert_same(run(fast), run(function))
    assert_same(run(fast), run(function))


def test_only_python_ends_a_default_device_that_was_set_before():
    def f(x):
        torch.set_default_device(None)
        return x + torch.ones(3)

    torch.set_default_device("meta")
    try:
        with stages.collect() as log:
            got = minitorch2.compile(f, backend="eager")(torch.ones(3, device="cpu"))
    finally:
        torch.set_default_device(None)
    assert got.device.type == "cpu" and log.counts["graph_breaks"] == 1
