"""`torch.cond` and `while_loop` in a region are Python's `if` and `while`, and are deferred."""

import threading

import pytest
import torch

from minitorch2 import lazy
from minitorch2.testing import assert_same

pytestmark = pytest.mark.usefixtures("empty_trie", "quick")
higher_order = torch._higher_order_ops


def branch(limit):
    def program(x):
        y = x * 2
        return torch.cond(y.sum() > limit, lambda a: a.sin() + y, lambda a: a.cos() + 1, (y,))

    return program


def gradient(x):
    weight = torch.ones(4, requires_grad=True)
    made = torch.cond(x.sum() > 3, lambda a: a * weight, lambda a: a.cos(), (x * 2,))
    return torch.autograd.grad(made.sum(), weight)[0]


def rounds(x):
    def goes_on(count, total):
        return total.sum() < 40

    def step(count, total):
        return count + 1, total * 2

    return higher_order.while_loop(goes_on, step, (torch.tensor(0), x * 2))


PROGRAMS = {"true": branch(3), "false": branch(99), "gradient": gradient, "loop": rounds}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_control_flow_of_pytorch_runs_in_a_region(program):
    """It raised an error: PyTorch's compiler cannot trace a program that defers."""
    x = torch.arange(4.0)
    wanted = program(x)
    for _ in range(3):
        with lazy.lazily():
            given = program(x)
        assert_same(_eager(given), _eager(wanted))
    assert lazy.metrics().counts.recorded > 3


def _eager(values):
    values = values if isinstance(values, tuple) else (values,)
    return [lazy.to_eager(value) for value in values]


def test_pytorchs_functions_are_back_behind_the_last_region():
    """A region puts its own functions in their places for its thread alone, until its end."""
    before = torch.cond, higher_order.cond, higher_order.while_loop
    inside, left = threading.Event(), threading.Event()

    def other():
        with lazy.lazily():
            inside.set()
            left.wait()

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait()
    with lazy.lazily(), lazy.lazily():
        assert torch.cond(torch.tensor(True), torch.sin, torch.cos, (torch.zeros(()),)) == 0
    assert torch.cond is not before[0]
    left.set()
    thread.join()
    assert (torch.cond, higher_order.cond, higher_order.while_loop) == before
