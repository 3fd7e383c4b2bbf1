"""Compiled programs that switch the grad mode themselves, called in either mode."""

import pytest
import torch

import minitorch2


def scale(x):
    with torch.enable_grad():
        return x * 2


def mix(x):
    before = x * 3
    with torch.enable_grad():
        inside = x.sin() * before
        view = x.view(-1)
    return before, inside, view, x.view(-1), x.cos()


def write(x):
    y = torch.zeros(3)
    with torch.enable_grad():
        y.copy_(x * 2)
    return y


def energy(x):
    """A force inside of inference, as molecular dynamics asks for it."""
    with torch.enable_grad():
        (force,) = torch.autograd.grad((x**3).sum(), x)
    return force


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "numba"])
@pytest.mark.parametrize("mode", [False, True])
@pytest.mark.parametrize("program", [scale, mix, write, energy])
def test_what_is_computed_in_grad_mode_has_gradients(program, mode, backend):
    """Regression: a graph that was compiled under no_grad had no gradients at all."""

    def run(function, size):
        x = torch.linspace(0.1, 1, size, requires_grad=True)
        with torch.set_grad_enabled(mode):
            results = function(x)
            assert torch.is_grad_enabled() == mode
        results = results if isinstance(results, tuple) else (results,)
        asked = [r for r in results if r.requires_grad]
        flags = [r.requires_grad for r in results]
        found = torch.autograd.grad([r.sum() for r in asked], x) if asked else ()
        return [r.detach() for r in results], flags, found

    compiled = minitorch2.compile(program, backend=backend, fullgraph=True)
    for size in (3, 3) if program is write else (3, 5, 7):
        values, flags, found = run(compiled, size)
        expected, wanted, gradients = run(program, size)
        torch.testing.assert_close([values, found], [expected, gradients])
        assert flags == wanted
