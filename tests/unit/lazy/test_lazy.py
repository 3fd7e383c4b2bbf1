"""Deferred execution: what is recorded, when it runs, what is compiled, what the program sees."""

import copy
import gc
import io
import threading
import time
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import minitorch2
from minitorch2 import config, lazy
from minitorch2.testing import assert_same

X = torch.arange(6.0).view(2, 3)


pytestmark = pytest.mark.usefixtures("empty_trie")


def counts():
    return lazy.metrics().counts


def steps():
    return counts().interpreted + counts().ran


# Recording ----------------------------------------------------------------------------------------


def test_nothing_runs_before_it_is_looked_at():
    for visit in range(2):
        with minitorch2.lazily():
            y = (X * 2).sum()
            assert steps() == visit
            assert y.item() == 30.0
            assert steps() == visit + 1
        assert_same(y, (X * 2).sum())
    assert isinstance(y, lazy.LazyTensor)


def test_sizes_are_plain_integers():
    with minitorch2.lazily():
        y = X @ X.t()
        assert [type(n) for n in y.shape] == [int, int]
        assert y.stride() == (2, 1) and y.dtype is torch.float32 and y.device == X.device
    assert steps() == 1


def test_the_host_may_branch_on_values():
    def f(x):
        y = x * 2
        return y + 1 if y.sum() > 100 else y - 1

    with minitorch2.lazily():
        given = f(X)
    assert_same(given, f(X))
    assert steps() == 2


@pytest.mark.parametrize(
    "bad",
    [
        lambda x: x @ x,
        lambda x: x + torch.ones(7),
        lambda x: x.view(4),
        lambda x: torch.cat([x, torch.ones(2)]),
        lambda x: x.expand(2, 3).add_(torch.ones(5, 2, 3)),
        lambda x: x[:, :1].expand(2, 3).add_(1),
        lambda x: x.int() @ x,
    ],
)
def test_errors_come_at_the_line_and_in_the_words_of_eager(bad):
    with pytest.raises(Exception) as wanted:
        bad(X.clone())
    with minitorch2.lazily():
        x = X.clone()
        with pytest.raises(type(wanted.value)) as given:
            bad(x)
        y = x + 1  # the step goes on
    assert str(given.value) == str(wanted.value)
    assert_same(y, X + 1)


def test_an_error_of_data_comes_at_the_barrier_and_names_the_line():
    weight = torch.ones(3, 2)
    with config.patch(lazy_compile_after=9), minitorch2.lazily():
        (nn.functional.embedding(torch.tensor([2]), weight) + 1).tolist()
        z = nn.functional.embedding(torch.tensor([7]), weight) + 1
        with pytest.raises(IndexError) as error:
            z.tolist()
        assert "test_lazy.py" in error.value.__notes__[0]
        with pytest.raises(IndexError):
            z.tolist()


def test_an_error_of_data_comes_at_once_where_the_operator_is_new():
    with minitorch2.lazily(), pytest.raises(IndexError):
        nn.functional.embedding(torch.tensor([7]), torch.ones(3, 2))


def test_an_operator_without_a_deferred_form_runs_and_is_listed():
    with minitorch2.lazily():
        y = (X * 2).nonzero()
        z = y + 1
    assert_same(z, (X * 2).nonzero() + 1)
    ((operator, line),) = counts().fallbacks
    assert operator == "aten.nonzero.default" and "test_lazy.py" in line


def test_sparse_tensors_and_users_operators_work():
    with minitorch2.lazily():
        sparse = (X * 2).to_sparse()
        y = torch.sparse.mm(sparse, X.t()) + 1
    assert_same(y, (X * 2) @ X.t() + 1)


# Writes, views, identity --------------------------------------------------------------------------


def test_the_counter_examples_of_the_paper():
    with minitorch2.lazily():
        a = torch.zeros(2)
        b = a + 2
        a += 1
        assert a.tolist() == a.tolist() == [1, 1] and b.tolist() == [2, 2]
        assert str(a) == str(a) == "tensor([1., 1.])"


def test_a_write_to_a_view_is_seen_by_its_base():
    with minitorch2.lazily():
        x = torch.zeros(2, 3, 4)
        v = x.permute(1, 2, 0)
        assert v.add_(42) is v
        row = x[1]
        row.mul_(2)
    assert x[1].eq(84).all() and x[0].eq(42).all() and v.shape == (3, 4, 2)


def test_ordinary_tensors_are_written():
    x, y = X.clone(), X.clone()
    with minitorch2.lazily():
        x.mul_(3)
        x[0] = 1
        assert x.numpy()[0].tolist() == [1, 1, 1]
        y.view(-1)[2:4] = 9
    assert_same(x, torch.tensor([[1.0, 1, 1], [9, 12, 15]]))
    assert_same(y, torch.tensor([[0.0, 1, 9], [9, 4, 5]]))


def test_views_of_one_memory_may_enter_apart():
    def f(x):
        a, b = x[0], x[1]
        a.add_(b)
        b.mul_(2)
        return a + b

    x, y = X.clone(), X.clone()
    parts, wanted = (y[0], y[1]), f(x)
    for _ in range(1):
        with minitorch2.lazily():
            parts[0].add_(parts[1])
            parts[1].mul_(2)
            given = parts[0] + parts[1]
    assert_same(given, wanted)
    assert_same(y, x)


@pytest.mark.parametrize("count", [1, 4])
def test_views_of_one_memory_in_a_program(count):
    flat = torch.arange(8.0)
    other = flat.clone()
    for _ in range(count):
        with config.patch(backend="aot_eager"), minitorch2.lazily():
            flat[:4].add_(flat[4:] * 2)
            flat[4:].mul_(0.5)
        other[:4].add_(other[4:] * 2)
        other[4:].mul_(0.5)
    assert_same(flat, other)
    assert lazy.metrics().compiled == (count > 1)


def test_changes_of_metadata():
    with minitorch2.lazily():
        x = X * 1
        assert x.t_() is x and x.shape == (3, 2)
        x.unsqueeze_(0).squeeze_(0)
        y = x + 1
    assert_same(y, X.t() + 1)


def test_assigned_data():
    plain = torch.ones(3)
    with minitorch2.lazily():
        x = torch.ones(3) * 1
        x.data = torch.zeros(2)
        x.data.add_(2)
        plain.mul_(2)
        plain.data = x.data * 3
        y = plain + 1
        x.set_(torch.full((3,), 5.0))
        out = torch.empty(0)
        torch.add(x, 1, out=out)
    assert x.tolist() == [5, 5, 5] and plain.tolist() == [6, 6] and y.tolist() == [7, 7]
    assert out.tolist() == [6, 6, 6]


def test_tensors_that_no_step_can_hold():
    class Sub(torch.Tensor):
        pass

    with minitorch2.lazily():
        sub = torch.ones(3).as_subclass(Sub) + 1
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]) * 2
        padded = nested.to_padded_tensor(0.0) + 1
        turned = (torch.ones(2, dtype=torch.complex64) * 1j).conj().imag
    assert type(sub) is Sub and sub.tolist() == [2, 2, 2]
    assert padded.tolist() == [[3, 3, 1], [3, 3, 3]] and turned.tolist() == [-1, -1]


def test_compiled_functions_inside():
    compiled = minitorch2.compile(lambda x: (x.sin() * x).sum())
    with minitorch2.lazily():
        y = compiled(X)
    torch.testing.assert_close(lazy.to_eager(y), (X.sin() * X).sum())


def test_another_library_may_write_to_memory():
    array = np.zeros(3, dtype=np.float32)
    with minitorch2.lazily():
        x = torch.from_numpy(array)
        y = x + 1
        array[0] = 5
        z = x + 1
        x.add_(1)
    assert y.tolist() == [1, 1, 1] and z.tolist() == [6, 1, 1]
    assert array.tolist() == [6, 1, 1]


def test_copies_pickles_and_texts():
    with minitorch2.lazily():
        y = (X * 2).requires_grad_()
        copied = copy.deepcopy(y)
        file = io.BytesIO()
        torch.save(y, file)
        z = y.sin()
        assert repr(z) == repr((X * 2).requires_grad_().sin())
    file.seek(0)
    assert_same(torch.load(file), (X * 2).requires_grad_())
    assert_same(copied, (X * 2).requires_grad_())


# Random numbers -----------------------------------------------------------------------------------


def draws():
    torch.manual_seed(3)
    x = torch.randn(4)
    x = nn.functional.dropout(x, 0.5) + torch.rand_like(x)
    torch.manual_seed(x.numel())
    return (
        x + torch.empty(4).normal_() + torch.randint(3, (4,)),
        torch.randperm(5),
        torch.bernoulli(x.sigmoid()),
    )


def test_random_numbers_are_those_of_eager():
    wanted = draws()
    after = torch.rand(1)
    with minitorch2.lazily():
        given = draws()
    assert_same(list(given), list(wanted))
    assert_same(torch.rand(1), after)


# Gradients ----------------------------------------------------------------------------------------


def trained(is_lazy, sizes, optimizer=torch.optim.AdamW, **options):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Dropout(0.1), nn.Linear(16, 4)
    )
    optimizer = optimizer(model.parameters(), **options)
    losses = []
    for number, batch in enumerate(sizes):
        optimizer.param_groups[0]["lr"] = 0.1 / (1 + number)
        x, y = torch.randn(batch, 8), torch.randint(4, (batch,))
        with minitorch2.lazily() if is_lazy else torch.enable_grad():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    return losses, [p.detach() for p in model.parameters()]


SIZES = [5, 5, 5, 5, 7, 3, 9, 11, 6, 4, 13, 8]


@pytest.mark.parametrize(
    "optimizer", [torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad]
)
def test_a_training_step_is_one_program_for_all_sizes(optimizer, quick):
    wanted = trained(False, SIZES, optimizer, lr=0.1)
    given = trained(True, SIZES, optimizer, lr=0.1)
    torch.testing.assert_close(given, wanted)
    assert steps() <= len(SIZES) + 1  # the second step leaves the first one's path: a part runs
    assert lazy.metrics().compiled <= 3
    assert not counts().fallbacks


def test_kernels_train_as_well():
    torch.testing.assert_close(
        trained(True, SIZES[:6], lr=0.1), trained(False, SIZES[:6], lr=0.1), rtol=1e-5, atol=1e-5
    )
    assert counts().ran >= 3


def test_second_derivatives_hooks_and_retained_gradients():
    def f(x):
        seen = []
        y = (x**3).sin()
        y.retain_grad()
        y.register_hook(lambda g: seen.append(g * 2) or g * 3)
        (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        first.pow(2).sum().backward()
        return first, x.grad, y.grad, seen

    wanted = f(X.clone().requires_grad_())
    with minitorch2.lazily():
        given = f(X.clone().requires_grad_())
    torch.testing.assert_close(given[:3], wanted[:3])
    torch.testing.assert_close(given[3], wanted[3])


def test_gradients_that_are_not_asked_for_are_none():
    """Regression: backward of a convolution gives None first where x needs no gradient."""
    torch.manual_seed(0)
    first, second = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 2, 3, bias=False)
    second.weight.requires_grad_(False)
    x = torch.randn(2, 3, 8, 8)

    def gradients():
        loss = second(nn.functional.group_norm(first(x), 2)).square().mean()
        return torch.autograd.grad(loss, list(first.parameters()))

    wanted = gradients()
    for _ in range(3):
        with config.patch(backend="aot_eager"), minitorch2.lazily():
            given = gradients()
        torch.testing.assert_close([lazy.to_eager(g) for g in given], list(wanted))
    assert lazy.metrics().compiled == 1 and not counts().fallbacks


# Programs -----------------------------------------------------------------------------------------


def test_steps_that_run_once_are_not_compiled():
    with minitorch2.lazily():
        for function in (torch.sin, torch.cos, torch.exp, torch.tanh):
            function(X).sum().item()
    assert lazy.metrics().compiled == 0 and steps() == 4


def test_a_number_that_varies_is_compiled_once(quick):
    for number in (2.5, 3.5, 4.5, 0.25):
        with minitorch2.lazily():
            y = X * number
        assert_same(y, X * number)
    assert lazy.metrics().compiled == 1
    assert "a number of aten.mul.Tensor was 2.5 and is 3.5" not in str(lazy.why_compiled()[0])


def test_an_integer_is_not_the_float_that_equals_it(quick):
    for number in (2, 2.0, 2, 2.0, 2, 2.0):
        with minitorch2.lazily():
            y = torch.arange(3) * number
        assert_same(y, torch.arange(3) * number)


@pytest.mark.parametrize("held", [1, 2])
def test_what_is_alive_decides_what_is_computed(held, quick):
    for _ in range(4):
        with minitorch2.lazily():
            a = X.sin()
            b = a * 2
            kept = (b,) if held == 1 else (a, b)
            del a, b
    assert_same(kept[-1], X.sin() * 2)
    assert lazy.metrics().compiled == 1


def test_garbage_that_is_collected_late_compiles_nothing(quick):
    gc.disable()
    try:
        for number in range(6):
            with minitorch2.lazily():
                a = X.sin()
                cycle = [a]
                cycle.append(cycle)
                b = a * 2
                del a, cycle
                if number == 2:
                    gc.collect()
    finally:
        gc.enable()
    assert_same(b, X.sin() * 2)
    assert lazy.metrics().compiled <= 2


def test_why_it_was_compiled_names_both_lines(quick):
    for number in (1, 1, 2, 2):
        with minitorch2.lazily():
            y = X + 1
            if number == 1:
                y = y.sin()
            else:
                y = y.cos()
    first, second = lazy.why_compiled()
    assert "has repeated" in first.cause
    assert second.cause == "the step has aten.cos.default where an earlier one had aten.sin.default"
    assert "y.cos()" in second.line.text and "y.sin()" in second.other.text


def test_a_place_found_by_a_step_of_other_sizes_tells_no_forms(quick):
    """Regression: a step of 20 elements got the 5 elements of the step that came there first."""
    for size, function in ((20, torch.sin), (5, torch.cos), (20, torch.cos), (5, torch.cos)):
        with minitorch2.lazily():
            y = function(torch.ones(size)) * 2
            assert y.shape == (size,)
        assert_same(y, function(torch.ones(size)) * 2)


def test_results_of_other_numbers(quick):
    """The number of results is a matter of numbers: the step takes another place of the trie."""
    for size in (4, 4, 6, 6, 4, 8):
        x = torch.arange(float(size))
        with minitorch2.lazily():
            parts = [part * 2 for part in x.split(2)]
        assert_same(parts, [part * 2 for part in x.split(2)])


def test_programs_that_never_repeat_are_forgotten():
    with config.patch(lazy_most_places=200):
        for number in range(150):
            with minitorch2.lazily():
                X.add(1).reshape(-1)[: 1 + number % 5].sum().mul(number % 7).exp()
    assert lazy.metrics().places <= 200


def test_a_long_step_ends_by_itself(quick):
    with config.patch(lazy_most_operators=50):
        lazy.mark_step()
        with minitorch2.lazily():
            y = torch.zeros(2)
            lazy.mark_step()
            for _ in range(200):
                y = y + 1
        assert y.tolist() == [200, 200]
    assert "lazy_most_operators" in {cause for cause, _ in counts().barriers}


# Ways to become lazy ------------------------------------------------------------------------------


def test_a_model_becomes_lazy_and_eager_again(quick):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    model[1].weight = nn.Parameter(model[0].bias.detach().clone())
    wanted = copy.deepcopy(model)
    assert lazy.to_lazy(model) is model and isinstance(model[0].weight, nn.Parameter)
    for _ in range(3):
        loss = model(X).square().sum()
        loss.backward()
        lazy.mark_step()
        wanted(X).square().sum().backward()
    lazy.to_eager(model)
    assert type(model[0].weight) is nn.Parameter
    torch.testing.assert_close(model.state_dict(), wanted.state_dict())
    torch.testing.assert_close(
        [p.grad for p in model.parameters()], [p.grad for p in wanted.parameters()]
    )


def test_threads_share_the_step():
    results = {}

    def work(number):
        x = lazy.to_lazy(torch.full((3,), float(number)))
        for _ in range(20):
            x = x * 1.5 - x
        results[number] = x.tolist()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, given in results.items():
        assert given == [number * 0.5**20] * 3


def test_autocast_and_inference_mode():
    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x.t()
        with torch.inference_mode():
            z = x * 2
        return y, z

    wanted = f(X)
    with minitorch2.lazily():
        given = f(X)
    assert_same(lazy.to_eager(given[0]), wanted[0])
    torch.testing.assert_close(lazy.to_eager(given[1]), wanted[1])


def test_the_pending_step_as_text_and_drawing():
    with minitorch2.lazily():
        x, y, z = (torch.ones(2, 4) for _ in range(3))
        lazy.mark_step()
        kept = x * y + z
        assert lazy.pending_text().splitlines() == [
            "IR {",
            "  %0 = f32[2,4] device_data(), device=cpu",
            "  %1 = f32[2,4] device_data(), device=cpu",
            "  %2 = f32[2,4] aten::mul(%0, %1)",
            "  %3 = f32[2,4] device_data(), device=cpu",
            "  %4 = f32[2,4] aten::add(%2, %3), ROOT=0",
            "}",
        ]
        assert '  n2 -> n4 [label="i=0"];' in lazy.pending_dot()
    del kept


def test_metrics_name_lines():
    with minitorch2.lazily(), warnings.catch_warnings():
        (X * 2).sum().item()
    text = str(lazy.metrics())
    assert "aten._local_scalar_dense.default" in text and "test_lazy.py" in text


def test_sizes_that_depend_on_floats_are_not_those_of_an_earlier_step():
    with lazy.lazily():
        for stop in (3.0, 5.0, 3.0, 7.0, 4.5):
            made = torch.arange(0.0, stop) * 2
            assert made.shape == torch.arange(0.0, stop).shape
            assert made.tolist() == (torch.arange(0.0, stop) * 2).tolist()
        for scale in (2.0, 3.0, 1.5):
            image = torch.ones(1, 1, 4, 4)
            given = torch.nn.functional.interpolate(image, scale_factor=scale)
            assert given.shape[-1] == int(4 * scale)


def test_steps_of_other_sizes_infer_nothing_when_they_come_again():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    inferred = []
    with lazy.lazily():
        for batch in (2, 3, 5, 3, 5, 3):
            before = lazy.metrics().counts.inferred
            model(torch.randn(batch, 4)).sum().item()
            inferred.append(lazy.metrics().counts.inferred - before)
    assert inferred[0] == 0 and all(inferred[1:3])  # operators that are new run as they come
    assert not any(inferred[3:])


def test_small_kernels_that_read_varying_numbers_launch_alone_in_triton():
    model = nn.Linear(8, 8)
    lazy.to_lazy(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(4, 8)
    with config.patch(backend="triton"):
        for _ in range(5):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            del loss
            lazy.mark_step()
    assert lazy.metrics().compiled


def test_the_first_kernel_waits_for_the_barrier_and_metrics_say_how_long():
    assert lazy.metrics().seconds_to_first_kernel == 0
    x = torch.ones(3)
    with lazy.lazily(eager_first=False):
        x + 1
    assert lazy.metrics().seconds_to_first_kernel == 0  # a new operator runs at once
    for _ in range(2):
        with lazy.lazily(eager_first=False):
            y = x + 1
            time.sleep(0.02)
    assert lazy.metrics().counts.delayed == 2
    assert lazy.metrics().seconds_to_first_kernel >= 0.02
    assert y.tolist() == [2, 2, 2]
