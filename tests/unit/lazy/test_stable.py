"""Functions whose steps are promised to be the same are repeated, and equal eager mode."""

import numpy as np
import pytest
import torch
from torch import nn

from minitorch2 import lazy
from minitorch2.testing import assert_same

pytestmark = pytest.mark.usefixtures("empty_trie", "quick")


def training(momentum=0.0):
    """A training step that says how often Python has run it, its model and its optimizer."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum)
    calls = []

    def step(x, y):
        calls.append(len(x))
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step, model, calls


def batches(count):
    generator = torch.Generator().manual_seed(3)
    for number in range(count):
        size = 5 if number % 3 else 6
        yield torch.randn(size, 4, generator=generator), torch.randint(2, (size,))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_training_steps_are_repeated_without_python(momentum):
    torch.manual_seed(1)
    given_batches = [*batches(24)]
    step, model, eager_calls = training(momentum)
    wanted = [step(*batch) for batch in given_batches]
    repeated, other, calls = training(momentum)
    repeated = lazy.stable(repeated)
    given = [repeated(*batch) for batch in given_batches]
    torch.testing.assert_close([lazy.to_eager(t) for t in given], wanted)
    torch.testing.assert_close([*other.parameters()], [*model.parameters()])
    assert len(eager_calls) == 24 and len(calls) <= 10
    assert lazy.metrics().counts.repeated == 24 - len(calls) and not repeated.obstacle


def loss_and_gradients(model):
    """The first half of a training step, which says how often Python has run it."""
    calls = []

    def run(x, y):
        calls.append(len(x))
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss.detach()

    return run, calls


def model_and_optimizer():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)


def test_an_optimizer_whose_numbers_change_goes_on_behind_a_repeated_call():
    """AdamW reads its count of steps, so a whole step with it was never repeated."""
    torch.manual_seed(1)
    given_batches = [*batches(24)]
    model, optimizer = model_and_optimizer()
    other, other_optimizer = model_and_optimizer()
    run, _ = loss_and_gradients(model)
    repeated, calls = loss_and_gradients(other)
    repeated = lazy.stable(repeated)
    for number, (x, y) in enumerate(given_batches):
        optimizer.zero_grad()
        wanted = run(x, y)
        optimizer.step()
        before = lazy.metrics().counts.barriers.total()
        with lazy.lazily():
            other_optimizer.zero_grad()
            loss = repeated(x, y)
            other_optimizer.step()
        if number > 12:  # one program for all of it
            assert lazy.metrics().counts.barriers.total() == before + 1
        torch.testing.assert_close(lazy.to_eager(loss), wanted)
    torch.testing.assert_close([*other.parameters()], [*model.parameters()])
    gradients = [lazy.to_eager(p.grad) for p in other.parameters()]
    torch.testing.assert_close(gradients, [p.grad for p in model.parameters()])
    assert len(calls) <= 10 and lazy.metrics().counts.repeated == 24 - len(calls)


def test_gradients_are_left_added_and_taken_away_as_in_the_call():
    """A call that finds other gradients than the one before it is recorded."""
    weight = nn.Parameter(torch.ones(3))

    def run(x):
        (weight * x).sum().backward()
        return x + 1

    repeated = lazy.stable(run)
    for _ in range(5):
        weight.grad = None
        repeated(torch.full((3,), 2.0))
        assert lazy.to_eager(weight.grad).tolist() == [2.0] * 3
    assert not repeated.obstacle
    repeated(torch.full((3,), 2.0))
    assert "another gradient" in repeated.obstacle
    assert lazy.to_eager(weight.grad).tolist() == [4.0] * 3
    weight.grad = plain = torch.zeros(3)
    added = lazy.stable(run)
    for number in range(1, 8):
        added(torch.full((3,), 2.0))
        assert weight.grad is plain and plain.tolist() == [2.0 * number] * 3
    assert not added.obstacle


def test_results_of_a_repeated_call_are_promises_in_a_region():
    x = torch.arange(6.0)
    run = lazy.stable(lambda x: ((x * 2).view(2, 3), x.add_(1).sum()))
    for _ in range(7):
        x = torch.arange(6.0)
        version = x._version
        with lazy.lazily():
            doubled, total = run(x)
            doubled[0] += total
            printed = repr(x)
        assert printed == repr(torch.arange(6.0) + 1) and x._version == version + 1
        wanted = (torch.arange(6.0) * 2).view(2, 3)
        wanted[0] += 21
        torch.testing.assert_close(lazy.to_eager(doubled), wanted)
    assert not run.obstacle and lazy.metrics().counts.repeated


def test_versions_of_written_tensors_count_on():
    weight = torch.ones(3)
    update = lazy.stable(lambda x: weight.mul_(2).sum() + x.add_(1).sum())
    for number in range(1, 8):
        x = torch.zeros(3)
        before = weight._version
        given = lazy.to_eager(update(x)).item()
        assert given == 3 * 2.0**number + 3
        assert weight._version == before + 1 and x._version == 1
    assert lazy.metrics().counts.repeated


def never(function, *arguments, count=6):
    """The reason why no call is repeated; each is right nevertheless."""
    run = lazy.stable(function)
    for _ in range(count):
        torch.manual_seed(0)
        wanted = function(*arguments)
        torch.manual_seed(0)
        assert_same(lazy.to_eager(run(*arguments).detach()), wanted.detach())
    assert not lazy.metrics().counts.repeated
    return run.obstacle


def test_what_cannot_be_promised_is_recorded_and_named():
    x = torch.rand(3)
    held = []
    ticks = iter(range(1000))
    w = torch.ones(3, requires_grad=True)
    assert "ran at once" in never(lambda x: x + x.sum().item(), x)
    assert "ran at once" in never(lambda x: x + torch.rand(3), x)
    assert "or a view of one" in never(lambda x: x.view(3, 1), x)
    assert "with history" in never(lambda x: x * w, x)
    assert "held and not returned" in never(lambda x: held.append(x * 3) or x + 1, x)
    assert "held and not returned" in never(lambda x: held.append(x.view(-1)) or x + 1, x)
    assert "type ndarray" in never(lambda x, a: x + 1, x, np.ones(3))
    run = lazy.stable(lambda x: x * float(next(ticks)))
    for number in range(6):
        assert lazy.to_eager(run(torch.ones(2))).tolist() == [number] * 2
    assert "other operators, numbers" in run.obstacle


def test_arguments_that_share_memory_are_recorded():
    run = lazy.stable(lambda a, b: a.add_(1) + b)
    for _ in range(5):
        run(torch.ones(3), torch.ones(3))
    assert not run.obstacle
    both = torch.ones(3)
    assert lazy.to_eager(run(both, both)).tolist() == [4.0] * 3
    assert "share memory" in run.obstacle


def test_other_memory_and_another_form_of_a_parameter_are_seen():
    weight = nn.Parameter(torch.ones(3), requires_grad=False)
    run = lazy.stable(lambda x: x * weight)
    for _ in range(5):
        run(torch.ones(3))
    weight.data = torch.full((3,), 5.0)
    assert lazy.to_eager(run(torch.ones(3))).tolist() == [5.0] * 3 and not run.obstacle
    weight.data = torch.full((1,), 7.0)
    assert lazy.to_eager(run(torch.ones(3))).tolist() == [7.0] * 3 and run.obstacle
