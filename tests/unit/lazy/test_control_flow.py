"""PyTorch's control flow in a region is Python's `if`, `while` and `for`, and is deferred."""

import threading

import pytest
import torch

from minitorch2 import lazy
from minitorch2.testing import assert_same

pytestmark = pytest.mark.usefixtures("empty_trie", "quick")
higher_order = torch._higher_order_ops
NAMES = "cond", "while_loop", "map", "scan"


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


def rows(x):
    table, weight = x.view(2, 2) + 1, torch.full((2,), 3.0, requires_grad=True)

    def change(row, factor):
        return {"scaled": row["x"] * factor * weight, "sum": row["x"].sum()}

    made = higher_order.map(change, {"x": table}, x[3].clone())
    return made["sum"].detach(), *torch.autograd.grad(made["scaled"].sum(), weight)


def running(dim, reverse):
    def program(x):
        table = torch.arange(6.0).view(2, 3) + x.sum()

        def combine(total, part):
            return total + part["x"] * x[1], [total * 2]

        init = table.select(dim, 0).clone()
        last, made = higher_order.scan(combine, init, {"x": table}, dim=dim, reverse=reverse)
        return last, *made

    return program


PROGRAMS = {"true": branch(3), "false": branch(99), "gradient": gradient, "loop": rounds}
PROGRAMS |= {"map": rows, "scan": running(0, reverse=False), "scan back": running(1, reverse=True)}


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


@pytest.mark.parametrize("rows", [0, 3])
def test_map_refuses_rows_as_in_eager_mode(rows):
    """No rows, and not equally many: the text is eager mode's, before the function is called."""
    arguments = torch.sub, (torch.ones(rows, 2), torch.ones(2, 2) if rows else torch.ones(0, 2))
    with pytest.raises(RuntimeError) as wanted:
        higher_order.map(*arguments)
    with lazy.lazily(), pytest.raises(RuntimeError) as given:
        higher_order.map(*arguments)
    assert str(given.value) == str(wanted.value)


def _eager(values):
    values = values if isinstance(values, tuple) else (values,)
    return [lazy.to_eager(value) for value in values]


def test_pytorchs_functions_are_back_behind_the_last_region():
    """A region puts its own functions in their places for its thread alone, until its end."""
    before = torch.cond, *map(higher_order.__dict__.get, NAMES)
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
    assert (torch.cond, *map(higher_order.__dict__.get, NAMES)) == before
