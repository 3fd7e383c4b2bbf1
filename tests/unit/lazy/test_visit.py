"""First visits of regions: eager mode, until the program comes by again."""

import threading

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import minitorch2
from minitorch2 import lazy

WITH_FIRST_VISITS = True


pytestmark = pytest.mark.usefixtures("empty_trie", "quick")


def counts():
    return lazy.metrics().counts


def test_a_program_that_runs_once_is_eager_mode():
    x = torch.ones(3, requires_grad=True)
    with minitorch2.lazily():
        y = (x * 2).sin()
        y.sum().backward()
        kinds = type(y), type(x.grad)
    assert kinds == (torch.Tensor, torch.Tensor)
    assert counts().recorded == 0 and counts().first_visits == 1
    assert "1 first visits in eager mode" in str(lazy.metrics())


def test_a_region_that_is_entered_again_is_deferred():
    for visit in range(4):
        with minitorch2.lazily():
            y = torch.ones(3) * 2 + visit
        assert y.tolist() == [2.0 + visit] * 3
        assert isinstance(y, lazy.LazyTensor) is (visit >= 2)
    assert counts().first_visits == 1


@pytest.mark.parametrize("looks", [False, True])
def test_a_loop_inside_of_a_region_is_deferred(looks):
    """The frame of the region stays at one call, and the loop is seen inside of it."""

    def step(model, x):
        loss = model(x).square().mean()
        loss.backward()
        return loss.item() if looks else None

    model, x = nn.Linear(3, 3), torch.ones(2, 3)
    with minitorch2.lazily():
        for _ in range(6):
            step(model, x)
            lazy.mark_step()
    assert counts().ran >= 2 and lazy.metrics().compiled >= 1
    wanted = nn.Linear(3, 3)
    wanted.load_state_dict(model.state_dict())
    for _ in range(6):
        step(wanted, x)
    torch.testing.assert_close(lazy.to_eager(model.weight.grad), wanted.weight.grad)


def test_different_calls_in_a_loop_are_no_repetition():
    functions = [torch.sin, torch.cos, torch.exp, torch.abs, torch.neg]
    with minitorch2.lazily():
        x = torch.ones(3)
        for function in functions:
            x = function(x)
    assert counts().recorded == 0


class Passing(TorchDispatchMode):
    """A mode of the program."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_operators_are_deferred_when_the_modes_of_the_program_have_ended():
    x = torch.ones(3)
    with minitorch2.lazily():
        with Passing():
            for _ in range(3):
                x = x + 1
        assert counts().recorded == 0
        for _ in range(3):
            x = x + 1
    assert x.tolist() == [7.0] * 3 and counts().recorded > 0


def test_another_thread_does_not_begin_to_defer():
    seen = []

    def add():
        seen.append((torch.ones(3) + 1).tolist())

    with minitorch2.lazily():
        add()
        thread = threading.Thread(target=add)
        thread.start()
        thread.join()
        assert counts().recorded == 0
        add()
    assert seen == [[2.0] * 3] * 3


def test_a_region_without_a_guard_or_with_the_switch_defers_at_once():
    for options in ({"guarded": False}, {"eager_first": False}):
        lazy.reset()
        with minitorch2.lazily(**options):
            torch.ones(3) * 2
        assert counts().recorded and not counts().first_visits


def test_an_error_in_a_first_visit_leaves_no_mode_behind():
    for _ in range(3):
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), minitorch2.lazily():
            torch.ones(2, 3) @ torch.ones(2, 3)
    assert type(torch.ones(1) + 1) is torch.Tensor
