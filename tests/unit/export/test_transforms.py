"""Exported programs inside of function transforms and of autograd, against eager."""

import pytest
import torch
from torch import func
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

import minitorch2
from minitorch2.errors import ExportError


class Partly(torch.nn.Module):
    """A model whose gradient is not that of its forward operators: it detaches."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        y = self.linear(x).tanh()
        with torch.no_grad():
            scale = y * 2
        return y * scale + y.detach()


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    """All forms of one program, by their names; ``eager`` is the model."""
    torch.manual_seed(0)
    model, folder = Partly(), tmp_path_factory.mktemp("transforms")
    program = minitorch2.export(model, (torch.randn(4, 3),))
    program.save(folder / "program.mt2")
    minitorch2.package(program, folder / "package.mt2")
    return {
        "eager": model,
        "program": program,
        "module": program.module(),
        "saved": minitorch2.load(folder / "program.mt2"),
        "package": minitorch2.load(folder / "package.mt2"),
    }


X = torch.linspace(-1, 1, 12).view(4, 3)
FORMS = ("program", "module", "saved", "package")


def twice(f):
    x = X.clone().requires_grad_()
    (first,) = torch.autograd.grad(f(x).square().sum(), x, create_graph=True)
    return torch.autograd.grad(first.sum(), x, create_graph=True)


def dual(f):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(forward_ad.make_dual(X, X))).tangent


DERIVATIVES = {
    "grad": lambda f: func.grad(lambda x: f(x).sum())(X),
    "grad_and_value": lambda f: func.grad_and_value(lambda x: f(x).sum())(X),
    "vjp": lambda f: func.vjp(f, X)[1](X),
    "jvp": lambda f: func.jvp(f, (X,), (X,)),
    "jacrev": lambda f: func.jacrev(f)(X),
    "jacfwd": lambda f: func.jacfwd(f)(X),
    "hessian": lambda f: func.hessian(lambda x: f(x).sum())(X),
    "linearize": lambda f: func.linearize(f, X)[1](X),
    "grad of vmap": lambda f: func.grad(lambda x: func.vmap(f)(x[None]).sum())(X),
    "vmap of grad": lambda f: func.vmap(func.grad(lambda x: f(x).sum()))(X[None]),
    "jvp of vmap": lambda f: func.jvp(func.vmap(f), (X[None],), (X[None],)),
    "vmap of jvp": lambda f: func.vmap(lambda x: func.jvp(f, (x,), (x,)))(X[None]),
    "grad of grad": lambda f: func.grad(lambda x: func.grad(lambda y: f(y).sum())(x).sum())(X),
    "autograd twice": twice,
    "a gradient in part": lambda f: (f(x := X.clone().requires_grad_()) + x).sum().backward(),
    "forward mode": dual,
    "autograd.functional": lambda f: torch.autograd.functional.jacobian(f, X),
    "functional_call": lambda f: func.grad(lambda x: func.functional_call(f, {}, (x,)).sum())(X)
    if isinstance(f, torch.nn.Module)
    else func.grad(lambda x: f(x).sum())(X),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("transform", DERIVATIVES)
def test_a_derivative_of_a_program_is_an_error_and_never_zeros(transform, form, forms):
    DERIVATIVES[transform](forms["eager"])
    with pytest.raises(ExportError, match="argument x is differentiated") as caught:
        DERIVATIVES[transform](forms[form])
    assert "x.detach()" in str(caught.value) and "torch.func.grad" in str(caught.value)


def test_a_derivative_with_respect_to_the_parameters_of_a_module_is_an_error(forms):
    module = forms["module"]
    weights = {name: p.detach() for name, p in module.named_parameters()}
    with pytest.raises(ExportError, match=r"parameter linear\.weight is differentiated"):
        func.grad(lambda w: func.functional_call(module, w, (X,)).sum())(weights)


def test_other_weights_are_computed_with_as_eager_does(forms):
    weights = {name: p.detach() + 1 for name, p in forms["eager"].named_parameters()}
    expected = func.functional_call(forms["eager"], weights, (X,))
    assert torch.equal(func.functional_call(forms["module"], weights, (X,)), expected)


@pytest.mark.parametrize("form", FORMS)
def test_where_nothing_is_differentiated_a_program_serves_inside_of_autograd(form, forms):
    f, x = forms[form], X.clone().requires_grad_()
    with torch.no_grad():
        torch.testing.assert_close(f(x), forms["eager"](x))
    (f(x.detach()) * x).sum().backward()
    torch.testing.assert_close(x.grad, forms["eager"](X).detach())


BATCHES = {
    "vmap": lambda f: func.vmap(f)(torch.stack([X, X + 1])),
    "vmap along the last dimension": lambda f: func.vmap(f, -1, -1)(torch.stack([X, X + 1], -1)),
    "vmap of vmap": lambda f: func.vmap(func.vmap(f))(torch.stack([X, X + 1])[None]),
    "functionalize": lambda f: func.functionalize(f)(X),
    "grad of something else": lambda f: func.grad(lambda w: (w * f(X)).sum())(torch.ones(4, 3)),
    "make_fx": lambda f: make_fx(f)(X)(X + 1),
}


@pytest.mark.parametrize("form", FORMS[:3])
@pytest.mark.parametrize("transform", BATCHES)
def test_a_program_in_a_transform_without_derivatives_is_eager(transform, form, forms):
    expected = BATCHES[transform](forms["eager"])
    torch.testing.assert_close(BATCHES[transform](forms[form]), expected)


@pytest.mark.parametrize("transform", BATCHES)
def test_a_package_in_a_transform_is_an_error_and_never_a_crash(transform, forms):
    with pytest.raises(ExportError, match=r"(?s)a package is called inside of .*program\.save"):
        BATCHES[transform](forms["package"])


def test_a_mode_that_sees_operators_is_named_by_the_error_of_a_package(forms):
    with FlopCounterMode(display=False), pytest.raises(ExportError, match="FlopCounterMode"):
        forms["package"](X)


def test_the_derivative_itself_is_exported_as_the_fix_says(forms):
    derivative = func.grad(lambda x: forms["eager"](x).sum())
    assert torch.equal(minitorch2.export(derivative, (X,))(X), derivative(X))
