"""Gradients of windows that `as_strided` takes of views, around writes in place."""

import pytest
import torch

from minitorch2 import lazy
from minitorch2.errors import UnsupportedError
from minitorch2.lazy.window import WINDOWS

pytestmark = pytest.mark.usefixtures("empty_trie", "quick")


def _gradients_of_a_window(write, make=lambda x: x):
    """Return the gradients of a window that shows more than its view, around a write."""
    x = make(torch.arange(12.0).view(3, 4)).requires_grad_()
    m = x * 1
    diagonal = m.diagonal()
    window = torch.as_strided(diagonal, m.shape, m.stride())
    before = torch.autograd.grad((window * window).sum(), x, retain_graph=True)[0]
    write(m, diagonal, window)
    after = torch.autograd.grad((window * m).sin().sum(), x)[0]
    return [before.clone(), after.clone(), window.detach().clone(), window._base is m]


@pytest.mark.parametrize(
    "write",
    [
        lambda m, diagonal, window: m.mul_(2),
        lambda m, diagonal, window: diagonal[0].fill_(5),
        lambda m, diagonal, window: window.mul_(m.detach().clone()),
    ],
)
def test_a_window_of_a_view_has_the_gradient_of_the_whole_window_behind_a_write(write):
    """PyTorch took the window of the view again, so elements beside the view had no gradient."""
    wanted = _gradients_of_a_window(write)
    for _ in range(4):
        with lazy.lazily(eager_first=False):
            given = _gradients_of_a_window(write)
        for one, other in zip(given[:3], wanted[:3], strict=True):
            assert torch.equal(lazy.to_eager(one), other)
        assert given[3] is wanted[3] is True


def test_a_write_outside_of_regions_is_refused_where_a_window_would_lose_its_gradient():
    """Nobody sees there how the window is taken; its gradient was silently wrong."""

    def write(m, diagonal, window):
        values = m.tolist()
        with pytest.raises(UnsupportedError, match=r"window by as_strided shows.*test_windows"):
            m.mul_(2)
        assert m.tolist() == values

    for _ in range(3):
        _gradients_of_a_window(write, lazy.to_lazy)
        assert not WINDOWS  # none lives on
        x = lazy.to_lazy(torch.arange(12.0).view(3, 4))
        window = torch.as_strided(x.diagonal(), x.shape, x.stride())
        x.mul_(2)  # no gradient flows
        assert window[0, 1].item() == 2
        del window
