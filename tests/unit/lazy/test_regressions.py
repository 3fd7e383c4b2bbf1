"""Programs that deferred execution once got wrong."""

import copy
import gc
import io
from contextlib import nullcontext

import numpy
import pytest
import torch

import minitorch2
from minitorch2 import config, lazy
from minitorch2.testing import assert_same

pytestmark = pytest.mark.usefixtures("empty_trie", "quick")


def windows(x, end_step):
    window = x[2:].as_strided((2, 2), (3, 1))
    part = window.as_strided((2,), (1,), 5)
    end_step()
    window.add_(1)
    end_step()
    part.mul_(2)
    end_step()
    return x, window, part


def test_a_window_by_as_strided_lives_longer_than_the_step_that_made_it():
    """The step that took up the view again asked a value for its storage offset."""
    x = torch.arange(12.0)
    wanted = windows(x.clone(), lambda: None)
    for _ in range(3):
        with lazy.lazily():
            given = windows(x.clone(), lazy.mark_step)
        assert_same([lazy.to_eager(t) for t in given], list(wanted))


def test_a_step_that_no_program_can_hold_runs_operator_by_operator_and_is_listed():
    """`as_strided` with an offset of an input raised UnsupportedError at the barrier."""
    x = torch.arange(12.0)
    for _ in range(3):
        with lazy.lazily():
            y = x[2:].as_strided((2,), (1,), 5) * 2
        assert_same(y, torch.tensor([10.0, 12.0]))
    assert lazy.metrics().compiled == 0
    assert "steps that cannot be compiled" in str(lazy.metrics())


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear"])
def test_gradients_of_upsampled_signals_of_many_lengths(mode):
    """PyTorch's meta kernel of the gradient takes no symbolic sizes."""
    _gradients(mode, [(2, 2, n) for n in (3, 3, 4, 5)], (7,))


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_gradients_of_upsampled_images_of_many_sizes(mode):
    _gradients(mode, [(2, 2, n, 3) for n in (3, 3, 4, 5)], (7, 8))


def _gradients(mode, shapes, size):
    def gradient(x):
        y = torch.nn.functional.interpolate(x, size=size, mode=mode)
        return torch.autograd.grad(y.abs().sum(), x)[0]

    for shape in shapes:
        x = torch.randn(shape, requires_grad=True)
        with lazy.lazily():
            given = gradient(x)
        torch.testing.assert_close(lazy.to_eager(given), gradient(x))
    assert lazy.metrics().compiled == 2
    assert not lazy.metrics().counts.fallbacks


def test_indices_that_pytorch_reads_before_it_calls_an_operator():
    """`tensor_split` reads its indices in C++: "its data is not allocated yet"."""
    x = torch.arange(12.0).view(6, 2)
    with lazy.lazily():
        index = torch.tensor([1, 3])
        index.add_(1)
        for parts in (
            x.tensor_split(index),
            torch.tensor_split(x, index * 1),
            torch.tensor_split(input=x * 1, tensor_indices_or_sections=index * 1, dim=0),
        ):
            assert [len(part) for part in parts] == [2, 2, 2]
        assert len(x.tensor_split(torch.tensor(3) * 1)) == 3


def test_a_view_made_before_the_region_shows_a_pending_write_to_its_base():
    """A tensor that had not entered the step was read, although the step writes its memory."""
    base = torch.zeros(2, 3)
    row, number = base[0], base[1, 1]
    with lazy.lazily():
        base.add_(1)
        assert row.tolist() == [1, 1, 1]
        base.mul_(2)
        assert number.item() == 2 and row.numpy().sum() == 6


def test_a_number_of_the_host_is_not_written_before_a_pending_read_of_its_memory():
    """A write to a number ran at once, although the step still had to read that memory."""
    base = torch.ones(3)
    number = base[0]
    with lazy.lazily():
        before = base * 2
        number.add_(5)
    assert before.tolist() == [2, 2, 2] and base.tolist() == [6, 1, 1]


def test_another_default_dtype_is_another_step():
    """`torch.ones` was float32 where an equal step had run with that default."""
    seen = []
    try:
        with lazy.lazily():
            for dtype in (torch.float32, torch.float64, torch.float32, torch.float64):
                torch.set_default_dtype(dtype)
                seen.append([torch.ones(2) * 2, torch.arange(3) / 2])
    finally:
        torch.set_default_dtype(torch.float32)
    assert [[t.dtype for t in part] for part in seen] == [
        [torch.float32] * 2,
        [torch.float64] * 2,
    ] * 2


def test_data_of_other_sizes_and_dtypes_may_be_assigned():
    """A lazy tensor could not grow, kept its dtype, and refused data if it was a parameter."""
    parameter = torch.nn.Parameter(torch.ones(2))
    lazily = lazy.to_lazy(torch.nn.ParameterList([parameter]))[0]
    lazily.data = torch.arange(6.0).view(2, 3).double()
    (lazily * 2).sum().backward()
    assert lazily.dtype is torch.float64 and lazily.requires_grad
    assert lazily.grad.tolist() == [[2, 2, 2], [2, 2, 2]]
    lazily.data = lazily.data[0] + 1
    assert lazily.tolist() == [1, 2, 3] and lazily.shape == (3,)


def test_numbers_are_formatted_and_gathered_into_tensors():
    """`format` had no numbers, and `torch.tensor` of lazy numbers failed."""
    x = torch.arange(3.0)
    with lazy.lazily():
        total = (x * 2).sum()
        assert f"{total:.2f}" == "6.00"
        assert torch.tensor([x[1], total, 4.0]).tolist() == [1, 6, 4]


def test_recurrent_layers_train_in_steps_that_run_operator_by_operator():
    """oneDNN's layer gave no workspace, since no gradients were recorded at the barrier."""
    torch.manual_seed(0)
    layer, x = torch.nn.LSTM(4, 3), torch.randn(5, 2, 4)
    wanted = torch.autograd.grad(layer(x)[0].sum(), layer.parameters())
    with lazy.lazily():
        given = torch.autograd.grad(layer(x)[0].sum(), layer.parameters())
    torch.testing.assert_close([lazy.to_eager(g) for g in given], list(wanted))


def test_lengths_are_not_judged_by_zeros():
    """A meta kernel failed, and the real one was asked with zeros, which it refused as lengths."""
    x = torch.arange(12.0).view(3, 4)
    with lazy.lazily():
        lengths = torch.tensor([3, 2, 1, 1]) * 1
        packed = torch.nn.utils.rnn.pack_padded_sequence(x * 1, lengths)
    assert len(packed.data) == 7


def test_tensors_made_of_tensors_keep_their_history():
    x = torch.ones(3, requires_grad=True)
    with lazy.lazily():
        torch.as_tensor(x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_steps_of_many_sizes_leave_nothing_behind():
    """Places, samples and programs are as many as the different steps."""
    model = torch.nn.Linear(3, 2)

    def steps(count):
        for number in range(count):
            with lazy.lazily():
                model(torch.ones(2 + number % 4, 3)).sum().backward()
            model.zero_grad()
        gc.collect()
        return len(gc.get_objects()), lazy.metrics().places, lazy.metrics().compiled

    steps(20)
    objects, places, compiled = steps(20)
    assert steps(200)[1:] == (places, compiled)
    assert abs(steps(20)[0] - objects) < 50


def test_an_input_that_is_written_gives_its_memory_to_the_new_value():
    model = lazy.to_lazy(torch.nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    places = [p.data_ptr() for p in model.parameters()]
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.ones(4, 3)).sum().backward()
        optimizer.step()
        lazy.mark_step()
    assert lazy.metrics().compiled
    assert [p.data_ptr() for p in model.parameters()] == places


def test_a_gradient_without_memory_is_compared_as_zeros():
    """The gradient of `sgn` has no memory; a comparison with it ended the process."""

    def gradient():
        x = torch.linspace(-1, 1, 400).requires_grad_()
        return torch.autograd.grad(x.sgn().abs().sum(), x)[0]

    wanted = gradient()
    assert wanted._is_zerotensor()
    with lazy.lazily():
        given = gradient()
        lazy.mark_step()
    torch.testing.assert_close(given, wanted, equal_nan=True)


def test_an_ordinary_tensor_is_written_while_lazy_tensors_have_still_to_read_it():
    """Outside of a region nobody sees the write, and the step read what was written later."""
    x, ordinary = lazy.to_lazy(torch.ones(3)), torch.full((3,), 2.0)
    for _ in range(3):
        before, ordinary = x * ordinary, ordinary.clone()
        ordinary.zero_()
        after = x * ordinary
        assert before.tolist() == [2, 2, 2] and after.tolist() == [0, 0, 0]
        ordinary.fill_(2)


def test_a_lazy_value_is_written_to_an_ordinary_tensor_at_once():
    """The gradient of a chunked loss was wrong, which computes with ``out=``."""
    x, ordinary = lazy.to_lazy(torch.ones(3)), torch.zeros(3)
    for number in range(1, 4):
        torch.add(x, number, out=ordinary)
        assert ordinary.tolist() == [1 + number] * 3
        ordinary[1:].copy_(x[1:] * 7)
        assert (ordinary + 1).tolist() == [2 + number, 8, 8]


def test_a_tensor_gets_other_memory_and_its_views_keep_theirs():
    """Views of ordinary tensors showed the new memory, and a lazy tensor kept the old one."""
    for make in (lambda t: t, lazy.to_lazy):
        for _ in range(3):
            x = make(torch.arange(4.0))
            with lazy.lazily():
                view = x[1:]
                x.data = torch.zeros(4)
                view.add_(1)
                other = x.detach()
                other.set_(torch.ones(2) * 3)
                other.mul_(2)
            assert x.tolist() == [0, 0, 0, 0] and view.tolist() == [2, 3, 4]
            assert other.tolist() == [6, 6]


def test_versions_are_counted_as_in_eager_mode():
    """Operators on lists counted no write, and ``x.data`` counted those of ``x``."""
    x, y = torch.ones(2), torch.ones(3)
    with lazy.lazily():
        torch._foreach_add_([x, y], 1)
        z = x * 2
        data = z.data
        z.add_(1)
    assert (x._version, y._version, z._version, data._version) == (1, 1, 1, 0)


def test_a_list_that_repeats_a_tensor_is_written_one_by_one():
    """The last write of the list was the only one."""
    for _ in range(3):
        x = torch.ones(2)
        with lazy.lazily():
            torch._foreach_mul_([x, x], [2.0, 3.0])
        assert x.tolist() == [6, 6]
    assert lazy.metrics().compiled == 1


def test_memory_that_numpy_shares_is_read_and_written_at_once():
    for _ in range(3):
        with lazy.lazily():
            x = torch.ones(4) * 1
            array = x.numpy()
            view = x[1:]
            view.add_(1)
            assert array.tolist() == [1, 2, 2, 2]
            array[1] = 9
            assert (view * 2).tolist() == [18, 4, 4]


def test_the_first_operator_of_a_step_knows_that_it_is_in_a_region():
    """After a change of the default dtype, or a random draw, a write went to a copy."""

    def program(x):
        torch.set_default_dtype(torch.float64)
        numbers = torch.ones(2)
        torch.set_default_dtype(torch.float32)
        x.view(-1)[1] = 3
        lazy.mark_step()
        x[0].normal_(generator=None)
        return numbers

    for seed in range(3):
        wanted, given = torch.zeros(2, 3), torch.zeros(2, 3)
        torch.manual_seed(seed)
        program(wanted)
        torch.manual_seed(seed)
        with lazy.lazily():
            program(given)
        assert torch.equal(given, wanted)


def test_operators_on_lists_count_versions_in_eager_mode_too():
    """Such an operator counted no write if one of its tensors could not enter a step."""
    x, shared = torch.ones(2), torch.ones(3)
    shared.numpy()  # NumPy may write to it
    with lazy.lazily():
        torch._foreach_add_([x, shared], 1)
        y = x * 2
        torch._foreach_mul_([y, shared], [2.0, 0.5])
    assert (x._version, y._version, shared._version) == (1, 1, 2)
    ordinary, made = torch.ones(2), lazy.to_lazy(torch.ones(2))
    torch._foreach_add_([made, ordinary], 1)
    assert (made._version, ordinary._version) == (1, 1)


OVERLAPS = {
    "a number of its own": lambda m: m.fill_(m[0, 0]),
    "a row in all rows": lambda m: m.addcmul_(m[0].expand(m.shape), m * 0.5),
    "a column in all columns": lambda m: m.mul_(m[:, :1].expand(m.shape)),
    "itself, not element by element": lambda m: m.masked_scatter_(m > 0, m),
    "a list with a row of a tensor": lambda m: torch._foreach_add_([m, m[0]], 1),
    "windows": lambda m: m.view(-1).unfold(0, 2, 1).add_(1),
    "the same bytes": lambda m: m.view(torch.int16)[:, 1::2].add_(m.view(torch.int32)),
}


@pytest.mark.parametrize("write", OVERLAPS.values(), ids=OVERLAPS)
def test_a_write_to_memory_that_it_reads_runs_in_eager_mode(write):
    """Some were refused that eager mode takes; others were compiled as if they read a copy."""

    def program(x):
        m = x * 1
        lazy.mark_step()
        write(m)
        return m

    x = torch.arange(-3.0, 6.0).view(3, 3)
    for _ in range(4):
        with lazy.lazily():
            given = program(x)
        assert torch.equal(lazy.to_eager(given), program(x))


@pytest.mark.parametrize(
    "write", [lambda m: m[:, :2].add_(m[:, 2:]), lambda m: m.view(-1)[::2].sub_(m.view(-1)[1::2])]
)
def test_a_write_beside_what_it_reads_is_compiled(write):
    x = torch.arange(12.0).view(3, 4)
    for _ in range(4):
        wanted, given = x.clone(), x.clone()
        write(wanted)
        with lazy.lazily():
            write(given)
        assert torch.equal(given, wanted)
    assert lazy.metrics().compiled == 1


def test_a_tensor_drawn_in_a_region_is_assigned_as_data():
    """The lazy tensor's data was a lazy tensor."""
    with lazy.lazily():
        x, new = torch.ones(3) * 2, torch.rand(3)
        new.add_(1)
        x.data = new
        x.mul_(2)
    assert type(lazy.to_eager(x)) is torch.Tensor
    assert torch.equal(lazy.to_eager(x), lazy.to_eager(new)) and new.min() >= 2


def test_a_result_of_varying_sizes_keeps_its_strides():
    """A program for all sizes gave the strides of what was copied, as in a parameter's gradient."""

    def gradient(x):
        turned = torch.nn.Parameter(x.t().contiguous().t())
        (turned.sin() * x).sum().backward()
        return turned.grad

    for rows in (3, 3, 3, 2, 2, 4, 5):
        x = torch.randn(rows, 6)
        with lazy.lazily():
            given = lazy.to_eager(gradient(x))
        assert_same(given, gradient(x))
        assert given.stride() == (1, rows)
    assert lazy.metrics().compiled == 2


def test_minus_infinity_beside_a_size_that_varies():
    """The text of the conditions on the numbers called it `inf`."""
    for rows in (3, 3, 4, 5, 6):
        x = torch.arange(float(rows))
        with lazy.lazily():
            given = lazy.to_eager(torch.full((x.size(0),), float("-inf")) + x.exp())
        assert torch.equal(given, torch.full((rows,), float("-inf")))
    assert lazy.metrics().compiled == 2


@pytest.mark.parametrize("numbers", [(0.0, -0.0), (-0.0, 0.0), (1.0, 2.0, 0.0, -0.0)])
def test_minus_zero_is_not_zero(numbers):
    """A step with 0.0 was taken for the one with -0.0, as they are equal."""

    def program(x, number):
        return 1 / (x * number), torch.clamp(x - 1, number), 1 / (x * -number)

    for number in numbers * 3:
        x = torch.ones(3)
        with lazy.lazily():
            given = [lazy.to_eager(result) for result in program(x, number)]
        for one, wanted in zip(given, program(x, number), strict=True):
            assert torch.equal(1 / one, 1 / wanted), number


@pytest.mark.parametrize("layer", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("contagious", [False, True])
def test_packed_sequences(layer, contagious):
    """Recurrent layers read the lengths in C++, where a lazy tensor has no memory."""
    rnn = torch.nn.utils.rnn

    def program(model, x):
        lengths = torch.tensor([5, 2, 3])
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y, _ = rnn.pad_packed_sequence(model(packed)[0], batch_first=True)
        sizes = torch.tensor([3, 3]) if not contagious else packed.batch_sizes[:2]
        own = rnn.PackedSequence(x.reshape(-1, 4)[: int(sizes.sum())], sizes)
        (y.sum() + model(own)[0].data.sum()).backward()
        return y, model.weight_hh_l0.grad

    model = layer(4, 5, 1, batch_first=True)
    for _ in range(3):
        x = torch.randn(3, 5, 4)
        model.zero_grad()
        wanted = program(model, x)
        model.zero_grad()
        with nullcontext() if contagious else lazy.lazily():
            used = lazy.to_lazy(copy.deepcopy(model)) if contagious else model
            given = program(used, lazy.to_lazy(x) if contagious else x)
        for one, other in zip(given, wanted, strict=True):
            torch.testing.assert_close(lazy.to_eager(one), other)


def test_views_as_large_as_another_tensor_in_inference_mode():
    """A view kept the other tensor, which was recorded once more when the view was looked at."""

    def program(x):
        other = torch.as_strided(x.view(-1), x.shape, x.stride()).detach()
        x.sum().add_(1)
        with torch.inference_mode():
            views = other.expand_as(other), other.view_as(x), other[:1].expand_as(x)
        return [view + number for number, view in enumerate(views)]

    x = torch.randn(3, 4)
    wanted = program(x)
    for _ in range(4):
        with config.patch(backend="aot_eager"), lazy.lazily():
            given = program(x)
        torch.testing.assert_close([lazy.to_eager(t) for t in given], wanted)
    assert not lazy.metrics().counts.fallbacks


@pytest.mark.parametrize("contagious", [False, True])
def test_windows_over_the_end_of_memory(contagious):
    """A window of memory that was long enough was known, so a shorter one failed at the look."""
    for length in (12, 12, 12, 4, 12):
        memory = torch.arange(float(length))
        with nullcontext() if contagious else lazy.lazily():
            start = (lazy.to_lazy(memory) if contagious else memory)[:2]
            lazy.mark_step()
            if length == 4:
                with pytest.raises(RuntimeError, match="out of bounds for storage"):
                    start.as_strided((3,), (2,), 1)
            else:
                assert start.as_strided((3,), (2,), 1).tolist() == [1, 3, 5]


def test_a_gradient_without_memory_is_read_in_the_step_that_makes_it():
    """Zeros that PyTorch keeps without memory crashed the kernel that read them."""
    for _ in range(3):
        x = torch.ones(3, requires_grad=True)
        with lazy.lazily():
            (gradient,) = torch.autograd.grad(torch.sgn(x).sum(), x)
            is_close = torch.isclose(gradient, torch.zeros(3)).all().item()
        assert is_close and lazy.to_eager(gradient).tolist() == [0.0] * 3


def test_zeros_without_memory_that_eager_mode_has_made_are_read_in_a_region():
    """A kernel read their memory: below a dispatch mode nobody gives them one."""
    x = torch.ones(3, requires_grad=True)
    (zeros,) = torch.autograd.grad(torch.sgn(x).sum(), x)
    for _ in range(3):
        with lazy.lazily():
            assert torch.isclose(zeros, torch.zeros(3)).all().item()


def test_a_float_beside_a_list_of_dimensions_is_one_number_of_the_call():
    """A call that was expected counted the dimensions as numbers that vary, too."""
    with config.patch(backend="aot_eager"):
        for number in range(7):
            x = torch.rand(4, 5)
            order = 2.0 if number < 5 else 3.0
            with lazy.lazily():
                given = torch.linalg.vector_norm(x * 1, order, dim=[1])
            assert_same(given, torch.linalg.vector_norm(x, order, dim=[1]))
    assert lazy.metrics().counts.ran >= 3


def test_views_in_inference_mode_that_no_step_can_hold_count_versions():
    """The view of memory that NumPy shares was made as a tensor without versions."""
    m, number = lazy.to_lazy(torch.arange(6.0).view(2, 3)), lazy.to_lazy(torch.tensor(3.0))
    m.numpy(), number.numpy()
    with torch.inference_mode():
        turned, row = m.t(), number.view(1)
    assert turned.shape == (3, 2) and not turned.is_inference()
    assert row.tolist() == [3.0] and not row.is_inference()


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_of_recurrent_layers_at_other_lengths(kind, backend):
    """The graph called oneDNN's layer, which keeps no workspace without gradient recording."""
    layer = getattr(torch.nn, kind)(4, 3, num_layers=2)
    with config.patch(backend=backend):
        for length in (5, 5, 5, 7, 7, 7, 6):
            x = torch.randn(length, 2, 4)
            wanted = torch.autograd.grad(layer(x)[0].sum(), layer.parameters())
            with minitorch2.lazily(eager_first=False):
                given = torch.autograd.grad(layer(x)[0].sum(), layer.parameters())
            assert_same([lazy.to_eager(each) for each in given], list(wanted))


def test_a_write_outside_of_regions_reads_ordinary_tensors_as_they_are_then():
    """The step shared the ordinary tensor, and saw what was written to it afterwards."""
    for _ in range(3):
        m, plain = lazy.to_lazy(torch.zeros(3)), torch.ones(3)
        m.add_(plain)
        plain.mul_(100)
        assert m.tolist() == [1.0, 1.0, 1.0]


def test_a_view_whose_history_a_write_has_taken_is_printed():
    """The text of one of several views raised an error; eager mode prints `Invalid`."""

    def program():
        m = torch.arange(12.0).view(3, 4).requires_grad_() * 1
        row, _ = m.view(-1).chunk(2)
        m.mul_(2)
        return repr(row)

    wanted = program()
    assert "Invalid" in wanted
    for _ in range(4):
        with lazy.lazily(eager_first=False):
            assert program() == wanted


def test_data_whose_dimension_of_one_element_has_another_stride():
    """Both are contiguous, so the second was taken for the first, and given its strides."""
    for step in (1, 5, 7, 5):
        x = torch.zeros(8).as_strided((1,), (step,))
        for _ in range(3):
            with lazy.lazily(eager_first=False):
                y = x.clone()
                strides = y.stride()
            assert strides == x.clone().stride() == (step,)


# Training loops -----------------------------------------------------------------------------------


def losses_of(optimizer_of, is_lazy, steps=8, between=lambda optimizer, number: None):
    torch.manual_seed(0)
    layer, losses = torch.nn.Linear(4, 4), []
    optimizer = optimizer_of(layer.parameters())
    for number in range(steps):
        between(optimizer, number)
        with lazy.lazily(eager_first=False) if is_lazy else nullcontext():
            optimizer.zero_grad()
            loss = layer(torch.randn(3, 4)).square().mean()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    return losses


def cycle(optimizer, number):
    """Change what `OneCycleLR` changes."""
    group = optimizer.param_groups[0]
    group["lr"], group["betas"] = 0.01 * (1 + number), (0.95 - 0.01 * number, 0.99)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RAdam"])
def test_a_schedule_of_momenta_compiles_no_program_for_each_of_them(name):
    """The decomposition of `lerp` asked its weight for its value: each step was compiled."""
    make = getattr(torch.optim, name)
    wanted = losses_of(make, is_lazy=False, between=cycle)
    with config.patch(backend=""):
        given = losses_of(make, is_lazy=True, between=cycle)
    assert given == pytest.approx(wanted, rel=1e-4)
    assert lazy.metrics().compiled <= 2  # RAdam has a step without a correction, then with one


def load_again(optimizer, number):
    """Resume from a file, as behind a restart."""
    if number == 3:
        file = io.BytesIO()
        torch.save(optimizer.state_dict(), file)
        file.seek(0)
        optimizer.load_state_dict(torch.load(file, weights_only=True))


def test_the_state_of_an_optimizer_out_of_a_file_enters_the_step():
    """PyTorch marks such memory as it marks NumPy's, so each operator ran in eager mode."""
    wanted = losses_of(torch.optim.AdamW, is_lazy=False, between=load_again)
    given = losses_of(torch.optim.AdamW, is_lazy=True, between=load_again)
    assert given == pytest.approx(wanted, rel=1e-4)
    assert not lazy.metrics().counts.fallbacks
    assert lazy.metrics().compiled <= 2


def test_memory_of_numpy_is_still_written_at_once():
    array = numpy.zeros(3, dtype="float32")
    tensor = torch.from_numpy(array)
    for _ in range(4):
        with lazy.lazily(eager_first=False):
            before = float(array[0])
            tensor.add_(1)
            assert array[0] == before + 1
