"""Compiled programs that switch the grad mode themselves, called in either mode."""

import pytest
import torch

import minitorch2


class Named(torch.Tensor):
    """A tensor with a class of its own."""


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


WEIGHT = torch.ones(3, requires_grad=True)


def update_a_weight(x):
    loss = (x * WEIGHT).exp().sum()
    with torch.no_grad():
        WEIGHT.mul_(2)
    return loss


def write_to_a_result(x):
    z = x * 2
    y = z.exp()
    y.detach().mul_(2)
    return y, z


def update_by_a_transform(x):
    first, second = WEIGHT * 1, WEIGHT * 2
    loss = lambda a, b: ((x * a).exp() * b).sum()  # noqa: E731
    (gradient, _), value = torch.func.grad_and_value(loss, (0, 1))(WEIGHT, second)
    with torch.no_grad():
        WEIGHT.sub_(gradient)
    return value, first


@pytest.mark.parametrize("backend", ["aot_eager", "numba"])
@pytest.mark.parametrize(
    "program", [update_a_weight, write_to_a_result, update_by_a_transform], ids=lambda f: f.__name__
)
def test_a_write_to_what_a_gradient_needs_is_an_error_of_backward(program, backend):
    """Regression: it was an error of the backend, though eager may never be asked for backward."""
    fast = minitorch2.compile(program, backend=backend, fullgraph=True)
    for call in (program, fast):
        with torch.no_grad():
            WEIGHT.fill_(1.0)
        x = torch.linspace(-1, 1, 3).requires_grad_()
        results = call(x)
        results = results if isinstance(results, tuple) else (results,)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            results[0].sum().backward()
        for result in results[1:]:
            result.sum().backward()
        found = [*map(torch.clone, results), WEIGHT.clone(), x.grad]
        WEIGHT.grad = None
        if call is program:
            expected = found
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_views_that_a_call_without_gradients_gives_are_eagers(mode):
    """A view of a leaf requires grad without a gradient function, whatever the mode."""

    def views(w):
        return w.view(2, 2), w[0], w.detach(), w * 2, w.t()

    def seen(function, w):
        with mode():
            results = function(w)
        return [(t.requires_grad, t.is_inference(), t._is_view()) for t in results]

    w = torch.ones(4, requires_grad=True)
    compiled = minitorch2.compile(views, fullgraph=True)
    for given in (w, w * 1, w.detach()):
        assert seen(compiled, given) == seen(views, given)


@pytest.mark.parametrize(
    "view", [lambda y: y.view(4), lambda y: y.as_subclass(Named), lambda y: y.t()[0]]
)
@pytest.mark.parametrize("backend", ["eager", "numba"])
def test_a_view_of_a_result_under_no_grad_has_no_history(view, backend):
    """Its gradient flowed to the result beside it: gradients were twice as large."""

    def program(x):
        y = x + x
        with torch.no_grad():
            seen = view(y)
        return y, seen

    def gradient(function):
        x = torch.ones(2, 2, requires_grad=True)
        results = function(x)
        with torch._C.DisableTorchFunctionSubclass():
            roots = [result for result in results if result.grad_fn is not None]
            sum(root.sum() for root in roots).backward()
            return len(roots), [result.requires_grad for result in results], x.grad.tolist()

    assert gradient(minitorch2.compile(program, backend=backend)) == gradient(program)


def views_under_no_grad(x):
    made = x * 2
    with torch.no_grad():
        of_input, of_made = x[0], made.view(-1)
        inside = of_made * 3
    return of_input * 2, of_made, inside, of_made.sin().sum() + of_input.sum()


def functions_without_gradients(x):
    class Opaque(torch.autograd.Function):
        """Its backward gives no gradient."""

        @staticmethod
        def forward(ctx, x):
            return x.sin()

        @staticmethod
        def backward(ctx, gradient):
            return None

    return (Opaque.apply(x) * 2,)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "numba"])
@pytest.mark.parametrize("program", [views_under_no_grad, functions_without_gradients])
@pytest.mark.parametrize("beside", [False, True])
def test_results_that_require_grad_and_lead_nowhere(program, beside, backend):
    """Regression: what is computed of a view made under no_grad required no gradient."""

    def run(function):
        x = torch.rand(2, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
        results = function(x)
        for result in results:
            if result.requires_grad:
                result.sum().backward(retain_graph=True)
        return [*results, *(r.requires_grad for r in results), x.grad]

    def both(x):
        return (*program(x), x.cos()) if beside else program(x)

    torch.testing.assert_close(
        run(minitorch2.compile(both, backend=backend, fullgraph=True)), run(both)
    )
