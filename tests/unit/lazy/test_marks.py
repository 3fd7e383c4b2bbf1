"""Views whose elements are still to be conjugated or negated are views in deferred steps, too."""

import pytest
import torch

from minitorch2 import config, lazy
from minitorch2.testing import assert_same

pytestmark = pytest.mark.usefixtures("empty_trie")


def writes_through_views(z):
    turned = z.conj()
    z.mul_(2)
    turned.add_(1j)
    seen = [turned + 0, z + 0, turned.is_conj()]
    parts = turned.imag
    parts.add_(1)
    seen += [parts.is_neg(), z * 1, parts.neg() + 1]
    part = turned.t().reshape(3)[1:]
    part.fill_(3j)
    return [*seen, part.is_conj(), z + 0, turned.resolve_conj().is_conj(), turned.conj().is_conj()]


def products(z):
    square = z.outer(z)
    return [square.mH @ z, torch.vdot(z, z), torch.dot(z.conj(), z), square.H.abs().sum()]


def eager(values):
    return [lazy.to_eager(v) if isinstance(v, torch.Tensor) else v for v in values]


@pytest.mark.parametrize("program", [writes_through_views, products])
@pytest.mark.parametrize("compile_after", [1, 99])
@pytest.mark.parametrize("is_region", [True, False])
def test_views_with_marks_share_memory_and_are_deferred(program, compile_after, is_region):
    """They were copies: a write to `z.conj().imag` was lost, and `is_neg` told False."""
    z = torch.tensor([1 + 2j, 3 - 1j, -2 + 1j])
    wanted = program(z.clone())
    for _ in range(4):
        with config.patch(backend="aot_eager", lazy_compile_after=compile_after):
            if is_region:
                with lazy.lazily():
                    given = program(z.clone())
            else:
                given = program(lazy.to_lazy(z))
                lazy.mark_step()
        assert_same(eager(given), wanted)
    assert not lazy.metrics().counts.fallbacks
    assert (lazy.metrics().compiled > 0) is (compile_after == 1)


def test_gradients_of_marked_views():
    def gradient(z):
        (turned := z * 1).conj().imag.mul_(2)
        return torch.autograd.grad((turned.conj() * z).abs().sum(), z)

    z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    for _ in range(3):
        with lazy.lazily():
            given = gradient(z)
        torch.testing.assert_close(eager(given), [*gradient(z)])
    assert not lazy.metrics().counts.fallbacks


@pytest.mark.parametrize("view", [torch.view_as_real, lambda z: z.view(torch.float32)])
def test_views_that_refuse_marks_raise_eagers_error_at_the_call(view):
    z = torch.tensor([1 + 2j, 3 - 1j])
    with pytest.raises(RuntimeError) as wanted:
        view(z.conj())
    for _ in range(3):
        with lazy.lazily(), pytest.raises(RuntimeError) as given:
            view((z * 2).conj())
        assert str(given.value) == str(wanted.value)


def test_a_marked_view_lives_longer_than_its_step():
    z = torch.tensor([1 + 2j, 3 - 1j])
    for _ in range(3):
        with lazy.lazily():
            turned = (z * 2).conj()
        assert turned.is_conj()
        with lazy.lazily():
            turned.add_(1j)
            assert_same(lazy.to_eager(turned + 0), (z * 2).conj() + 1j)


def test_quantiles_and_transforms_are_deferred():
    """PyTorch asks whether the form of a result fits: this ended the step."""
    x = torch.arange(8.0)
    for _ in range(3):
        before = lazy.metrics().counts.fallbacks.total()
        with lazy.lazily():
            given = [torch.quantile(x * 2, 0.5), torch.fft.ihfft(x).conj() * 2]
        assert_same(eager(given), [torch.quantile(x * 2, 0.5), torch.fft.ihfft(x).conj() * 2])
    assert lazy.metrics().counts.fallbacks.total() == before
