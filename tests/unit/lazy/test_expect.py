"""Calls that are expected: they are matched without an event, and what is not expected is not."""

import math
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import minitorch2
from minitorch2 import config, lazy
from minitorch2.lazy import defer, expect
from minitorch2.native.torch_internals.modes import count_function_modes, function_mode_at

pytestmark = pytest.mark.usefixtures("empty_trie", "quick")
OPTIMIZERS = {
    "SGD": {"momentum": 0.9},
    "Adam": {"amsgrad": True},
    "AdamW": {},
    "NAdam": {},
    "Adagrad": {},
    "ASGD": {},
    "Adamax": {},
}


def trained(name, foreach, steps):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
    optimizer = getattr(torch.optim, name)(model.parameters(), foreach=foreach, **OPTIMIZERS[name])
    for number in range(steps):
        optimizer.param_groups[0]["lr"] = 0.1 / (1 + number)
        yield model, optimizer


def step_of(model, optimizer, x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_training_step_is_one_program_that_reads_counts_of_steps_without_a_barrier(name, foreach):
    """Regression: counts of steps in lists, as optimizers hold them on a GPU, ended the step."""
    x = torch.randn(5, 8)
    for model, optimizer in trained(name, foreach, 7):
        step_of(model, optimizer, x)
    wanted = [p.detach() for p in model.parameters()], optimizer.state_dict()["state"]
    for model, optimizer in trained(name, foreach, 7):
        barriers = lazy.metrics().counts.barriers.total()
        with minitorch2.lazily():
            step_of(model, optimizer, x)
        taken = lazy.metrics().counts.barriers.total() - barriers
    assert taken == 1, lazy.metrics()
    assert lazy.metrics().compiled == 1 and lazy.metrics().counts.ran >= 4
    assert not lazy.metrics().counts.fallbacks
    given = [p.detach() for p in model.parameters()], optimizer.state_dict()["state"]
    torch.testing.assert_close(given, wanted)


def test_a_count_that_a_pending_operator_read_goes_on_counting():
    x, count = torch.ones(3), torch.tensor(1.0)
    seen = []
    for _ in range(3):
        with minitorch2.lazily():
            y = x * count
            count += 1
            z = y + count
            seen.append((count.item(), lazy.metrics().counts.barriers.total()))
        seen.append(z.tolist())
    assert seen == [(2.0, 0), [3.0] * 3, (3.0, 1), [5.0] * 3, (4.0, 2), [7.0] * 3]


# Calls that are known -----------------------------------------------------------------------------


def count_of_looks(monkeypatch, function, times=5):
    """How many events are looked up in the last of some runs in steps of their own."""
    looks = []
    known = defer.record
    monkeypatch.setattr(defer, "record", lambda *a: looks.append(a[1]) or known(*a))
    for _ in range(times):
        looks.clear()
        with minitorch2.lazily():
            function()
    return looks


def test_a_step_that_repeats_looks_up_nearly_no_call(monkeypatch):
    x, weight = torch.randn(4, 4), nn.Parameter(torch.randn(4, 4))

    def step():
        y = x @ weight
        y = (y.view(2, 8).sin() + 1).mul_(0.5).clamp(min=0.25).to(torch.float64)
        first, second = torch.var_mean(y, dim=[0])
        torch.cat([first, second]).sum().backward()
        return torch.where(first > 2, first, second)

    looks = [str(func) for func in count_of_looks(monkeypatch, step)]
    assert set(looks) <= {"aten.scalar_tensor.default"}, looks


def test_lists_of_tensors_are_matched(monkeypatch):
    tensors = [torch.randn(3) for _ in range(3)]
    others = [torch.randn(3) for _ in range(3)]

    def step():
        torch._foreach_add_(tensors, others)
        torch._foreach_mul_(tensors, [0.5, 0.25, 2.0])
        torch._foreach_addcmul_(tensors, tensors, others, 0.125)
        return torch._foreach_sqrt(torch._foreach_abs(tensors))

    wanted = [t.clone() for t in tensors]
    assert not count_of_looks(monkeypatch, step)
    given, tensors = tensors, wanted
    for _ in range(5):
        step()
    torch.testing.assert_close(given, tensors)
    assert [t._version for t in given] == [t._version for t in tensors]


@pytest.mark.parametrize(
    "change",
    [
        lambda x, y: x.add(y, alpha=3),
        lambda x, y: x.add(y, alpha=2.0),
        lambda x, y: x.add(y, alpha=-0.0),
        lambda x, y: x.add(y, alpha=math.nan),
        lambda x, y: x.add(x, alpha=2),
        lambda x, y: y.add(x, alpha=2),
        lambda x, y: x.sub(y, alpha=2),
        lambda x, y: x.add(y),
        lambda x, y: x.add(torch.ones(2, 2), alpha=2),
        lambda x, y: x.add_(y, alpha=2),
    ],
)
def test_a_call_that_differs_a_little_is_another_one(change):
    def program(call):
        x, y = torch.ones(2, 2) * 3, torch.full((2, 2), 2.0).sin()
        return call(x, y) * 1, x, y

    for number in range(6):
        call = change if number in (2, 4) else lambda x, y: x.add(y, alpha=2)
        wanted = program(call)
        with minitorch2.lazily():
            given = program(call)
        torch.testing.assert_close(
            [lazy.to_eager(t) for t in given], list(wanted), equal_nan=True, rtol=0, atol=0
        )
        assert torch.equal(torch.signbit(lazy.to_eager(given[0])), torch.signbit(wanted[0]))


@pytest.mark.parametrize("other", [True, 1, 1.0, 2])
def test_numbers_that_are_equal_are_told_apart_by_their_types(other):
    for number in (1, 1, 1, other, 1, other):
        with minitorch2.lazily():
            given = (torch.arange(3) * 2 + number).mul(number)
        wanted = (torch.arange(3) * 2 + number).mul(number)
        assert given.dtype is wanted.dtype and given.tolist() == wanted.tolist()


def test_lists_of_numbers_that_are_equal_are_told_apart_by_their_types():
    tensors = [torch.ones(2, dtype=torch.int64)]
    for numbers in ([2], [2], [2], [2.0], [2], [True]):
        wanted = torch._foreach_mul(torch._foreach_add(tensors, 1), numbers)
        with minitorch2.lazily():
            given = torch._foreach_mul(torch._foreach_add(tensors, 1), numbers)
        assert given[0].dtype is wanted[0].dtype and given[0].tolist() == wanted[0].tolist()


def test_the_default_dtype_and_inference_mode_are_looked_at_in_each_call():
    def program(number):
        x = torch.ones(2, 2) * 2
        torch.set_default_dtype(torch.float64 if number in (3, 5) else torch.float32)
        y = torch.zeros(2) + 1
        torch.set_default_dtype(torch.float32)
        with torch.inference_mode(number == 4):
            z = x + 1
        return y, z.is_inference()

    for number in range(7):
        wanted = program(number)
        with minitorch2.lazily():
            given = program(number)
        assert given[0].dtype is wanted[0].dtype and given[1] is wanted[1]


def test_views_of_data_begin_where_the_data_do():
    memory = torch.arange(20.0)
    for begin in (0, 0, 0, 4, 8, 0):
        x = memory[begin : begin + 4]
        with minitorch2.lazily():
            y = x.view(2, 2)
            offsets = y[1].storage_offset(), y.storage_offset()
            z = y[1] + 1
        assert offsets == (begin + 2, begin)
        assert z.tolist() == (x.view(2, 2)[1] + 1).tolist()


def test_a_write_to_data_is_seen_before_the_step_ends():
    x = torch.zeros(3)
    for number in range(1, 6):
        with minitorch2.lazily():
            torch.ones(3).mul(2).add_(1)
            x.add_(1)
            assert x.numpy().tolist() == [number] * 3


def test_texts_of_matchers_are_shared_by_operators_of_one_kind():
    for _ in range(3):
        with minitorch2.lazily():
            x = torch.ones(3) * 2.0
            x.sin().cos().exp().sum()
    before = expect._matcher.cache_info().currsize
    for _ in range(3):
        with minitorch2.lazily():
            x = torch.ones(3) * 2.0
            x.tan().tanh().abs().mean()
    assert expect._matcher.cache_info().currsize - before <= 1


# Data that are expected to enter ------------------------------------------------------------------


class Twice(torch.Tensor):
    """A subclass, which no step holds."""


@pytest.mark.parametrize(
    "other",
    [
        lambda x: x[:, :2],
        lambda x: x.t(),
        lambda x: x.double(),
        lambda x: x.clone()[::2],
        lambda x: torch.from_numpy(x.numpy().copy()),
        lambda x: x.as_subclass(Twice),
        lambda x: x.to(torch.complex64).conj(),
        lambda x: x.sum(),
        lambda x: x.to_sparse(),
        lambda x: nn.Parameter(x),
    ],
    ids=[
        "narrow",
        "turned",
        "double",
        "every_other",
        "numpy",
        "subclass",
        "conjugate",
        "number",
        "sparse",
        "parameter",
    ],
)
def test_data_that_differ_a_little_enter_as_what_they_are(other):
    def program(x, y):
        return (x * 2).sum() + y.sum(), x

    given, y = torch.arange(16.0).view(4, 4), torch.ones(3)
    for number in range(7):
        x = other(given.clone()) if number in (4, 5) else given.clone()
        wanted = program(x, y)
        with minitorch2.lazily():
            total, same = program(x, y)
        assert same is x
        torch.testing.assert_close(lazy.to_eager(total), lazy.to_eager(wanted[0]))


def test_memory_that_has_entered_does_not_enter_again_by_another_tensor():
    base = torch.zeros(2, 3)
    for number in range(1, 7):
        first, second = base.detach(), (base.detach() if number > 3 else torch.zeros(2, 3))
        with minitorch2.lazily():
            first.add_(1)
            total = (second * 2).sum()
        assert total.item() == (12.0 * number if number > 3 else 0.0)


def test_data_that_shared_memory_in_an_earlier_step_enter_apart():
    """Data with memory of their own entered as a part of the memory that was shared before."""
    for number in range(8):
        base = torch.zeros(2, 3)
        first, second = base.detach(), (base if number < 5 else torch.zeros(2, 3)).detach()
        with minitorch2.lazily():
            second.add_(first + 1)
            first.mul_(2)
        wanted = (
            ([[2.0] * 3] * 2, [[2.0] * 3] * 2) if number < 5 else ([[0.0] * 3] * 2, [[1.0] * 3] * 2)
        )
        assert (first.tolist(), second.tolist()) == wanted


def test_a_long_list_of_tensors_enters_without_recursion():
    tensors = [torch.zeros(2) for _ in range(1100)]
    for _ in range(5):
        with config.patch(lazy_compile_after=99), minitorch2.lazily():
            torch._foreach_add_(tensors, 1.0)
    assert all(tensor.tolist() == [5.0, 5.0] for tensor in tensors)


# Optimizers in regions ----------------------------------------------------------------------------


def test_an_optimizer_that_leaves_it_open_takes_lists_in_a_region():
    """One call for all parameters: else the optimizer is most of the operators of a step."""
    x = torch.randn(5, 8)
    recorded = {}
    for foreach in (None, False):
        lazy.reset()
        for model, optimizer in trained("AdamW", foreach, 3):
            with minitorch2.lazily():
                step_of(model, optimizer, x)
            assert [group["foreach"] for group in optimizer.param_groups] == [foreach]
        recorded[foreach] = lazy.metrics().counts.recorded
    assert recorded[None] < 0.75 * recorded[False], recorded


def test_settings_of_optimizers_are_as_before_when_a_step_fails():
    p = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([p])
    p.grad = torch.ones(2)
    optimizer.state[p] = {"step": torch.tensor(1.0), "exp_avg": torch.ones(3)}
    optimizer.state[p]["exp_avg_sq"] = torch.ones(3)
    with pytest.raises(RuntimeError), minitorch2.lazily():
        optimizer.step()
    assert optimizer.param_groups[0]["foreach"] is None


@pytest.mark.parametrize("case", ["tensor", "closure", "sparse", "fused"])
def test_optimizers_that_cannot_take_lists_do_not(case):
    def run():
        torch.manual_seed(0)
        layer = nn.Embedding(4, 3, sparse=case == "sparse")
        rate = torch.tensor(0.1) if case == "tensor" else 0.1
        options = {} if case == "sparse" else {"fused": case == "fused"}
        kind = torch.optim.Adagrad if case == "sparse" else torch.optim.Adam
        optimizer = kind(layer.parameters(), lr=rate, **options)
        seen = []

        def closure():
            seen.append(optimizer.param_groups[0]["foreach"])
            return torch.ones(())

        for _ in range(3):
            layer(torch.tensor([1, 2])).square().sum().backward()
            optimizer.step(closure) if case == "closure" else optimizer.step()
            optimizer.zero_grad()
        assert not any(seen)
        return layer.weight.detach().clone()

    wanted = run()
    for _ in range(3):
        with minitorch2.lazily():
            given = run()
        torch.testing.assert_close(lazy.to_eager(given), wanted)


def guards():
    """Return how many function modes of regions watch calls of PyTorch now."""
    modes = [function_mode_at(position) for position in range(count_function_modes())]
    return sum(type(mode).__name__ == "_Guard" for mode in modes)


def test_the_guard_is_away_while_an_optimizer_of_pytorch_steps(monkeypatch):
    """It saw ten calls for each parameter, and none that reads memory."""
    seen = []
    group_of = torch.optim.SGD._init_group

    def noted(*args):
        seen.append(guards())
        return group_of(*args)

    monkeypatch.setattr(torch.optim.SGD, "_init_group", noted)
    weight = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with lazy.lazily():
        weight.sum().backward()
        optimizer.step()
        seen.append(guards())
        optimizer.zero_grad()
        seen.append(guards())
        optimizer.register_step_pre_hook(lambda *_: seen.append(guards()))
        optimizer.step()
    assert seen == [0, 1, 1, 1, 1]


def test_behind_a_step_that_fails_reads_of_memory_are_guarded():
    """Whoever catches the error may read memory that a pending operator writes."""
    weight, plain = torch.ones(3, requires_grad=True), torch.ones(3)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(3):
        with lazy.lazily():
            weight.sum().backward()
            optimizer.param_groups[0]["lr"] = "fast"
            with pytest.raises((TypeError, RuntimeError, ValueError)):
                optimizer.step()
            plain.mul_(2)
            assert plain.numpy()[0] == plain.tolist()[0]
            assert guards() == 1
    assert plain.numpy().tolist() == [8.0, 8.0, 8.0]


def test_a_mode_of_the_program_sees_the_calls_of_an_optimizer():
    class Counting(TorchFunctionMode):
        calls = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.calls += 1
            return func(*args, **(kwargs or {}))

    weight = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    counts = []
    for region in (nullcontext, lazy.lazily):
        weight.grad = torch.ones(3)
        with region(), Counting() as mode:
            optimizer.step()
        counts.append(mode.calls)
    assert counts[1] >= counts[0] > 3
