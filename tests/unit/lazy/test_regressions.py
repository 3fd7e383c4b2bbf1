"""Programs that deferred execution once got wrong."""

import pytest
import torch

from minitorch2 import config, lazy
from minitorch2.testing import assert_same


@pytest.fixture(autouse=True)
def anew():
    lazy.reset()
    with config.patch(backend="aot_eager"):
        yield
    lazy.reset()


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
