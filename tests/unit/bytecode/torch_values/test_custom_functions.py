"""`torch.autograd.Function` in all its forms: one graph, and the user's own gradients."""

import enum

import pytest
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

import minitorch2
from minitorch2 import stages
from minitorch2.testing.assertions import assert_same
from tests.unit.bytecode.torch_values.programs import INPUTS, Row, check_row, program_of, table
from tests.unit.bytecode.torch_values.test_transforms import agree


class Mode(enum.Enum):
    A = 1
    B = 2


class NonTensor(Function):
    @staticmethod
    def forward(ctx, x, n, mode=Mode.A, flag=None, opts=()):
        ctx.n = n
        ctx.mode = mode
        ctx.save_for_backward(x)
        return x * n if mode is Mode.A else x + n

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return (g * ctx.n * 7 if ctx.mode is Mode.A else g * x), None, None, None, None


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos() * 2


class SaveOut(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y * 3


class SaveMid(Function):
    @staticmethod
    def forward(ctx, x):
        m = x.sin()
        y = m * m
        ctx.save_for_backward(x, m, y)
        ctx.extra = m.sum()
        return y

    @staticmethod
    def backward(ctx, g):
        x, m, y = ctx.saved_tensors
        return g * m * x.cos() * 2 + y * 0 + ctx.extra


class SaveNone(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, None, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, n, y = ctx.saved_tensors
        assert n is None
        return g * y, g * x


class Needs(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        gx = gy = None
        if ctx.needs_input_grad[0]:
            gx = g * y * 2
        if ctx.needs_input_grad[1]:
            gy = g * x * 3
        return gx, gy


class Dirty(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 5


class NoMat(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, a, b):
        if a is None:
            return b * 3
        if b is None:
            return a * 20
        return a * 2 + b * 3


class Mat(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, a, b):
        return a * 20 + b * 3


class Setup(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x * y, x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.k = 3

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * y * ctx.k + h * x.cos(), g * x


class WithVmap(Function):
    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos() * 2

    @staticmethod
    def vmap(info, in_dims, x):
        return WithVmap.apply(x) * 10, in_dims[0]


class WithJvp(Function):
    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos() * 2

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return t * x.cos() * 3


class Base(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g * Base.scale(ctx)

    @staticmethod
    def scale(ctx):
        return ctx.saved_tensors[0] * 2


class Sub(Base):
    @staticmethod
    def backward(ctx, g):
        return Base.backward(ctx, g) * 2


class SubSub(Sub):
    pass


class Cls(Function):
    @classmethod
    def helper(cls):
        return 3

    @staticmethod
    def forward(ctx, x, *rest, **kw):
        ctx.rest = len(rest)
        return x * Cls.helper()

    @staticmethod
    def backward(ctx, g):
        return (g * 4,) + (None,) * ctx.rest


class TwoSame(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x * 2


class Ident(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return -g


class ViewAs(Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g.neg()


class Double(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2 * 1.5


class NoneGrad(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * 2 + y

    @staticmethod
    def backward(ctx, g):
        return g * 2, None


class Nested(Function):
    @staticmethod
    def forward(ctx, x):
        with torch.enable_grad():
            t = x.detach().requires_grad_()
            assert (t * t).requires_grad
        ctx.save_for_backward(x)
        return Double.apply(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return Double.apply(g * x)


class ListOut(Function):
    @staticmethod
    def forward(ctx, x):
        return [x * 2, x * 3]

    @staticmethod
    def backward(ctx, a, b):
        return a + b


class CtxObj(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.d = {"a": x * 2}
        ctx.l = [1, 2]
        ctx.shape = x.shape
        return x.sum(0)

    @staticmethod
    def backward(ctx, g):
        return g.expand(ctx.shape) * len(ctx.l) + ctx.d["a"] * 0


MORE = {name: value for name, value in globals().items() if isinstance(value, type)}
MORE["f_apply"] = NonTensor.apply

ROWS: list[Row] = [
    "NonTensor.apply(w, 3)",
    "NonTensor.apply(w, 3, Mode.B)",
    "NonTensor.apply(w, 2.5, Mode.A, 'x', (1, 2))",
    "NonTensor.apply(w, s)",
    "NonTensor.apply(w, f)",
    "Once.apply(w)",
    "SaveOut.apply(w)",
    "SaveMid.apply(w)",
    "SaveNone.apply(w, x)",
    "SaveNone.apply(x, w)",
    "Needs.apply(w, x)",
    "Needs.apply(x, w)",
    "Needs.apply(w, w * 2)",
    "t = w * 1\nr = Dirty.apply(t)\nr, t is r, t + 1",
    "Dirty.apply(x)",
    "t = w.clone()\nDirty.apply(t)\nt * 2",
    "a, b = NoMat.apply(w)\na",
    "a, b = NoMat.apply(w)\nb * 2",
    "a, b = NoMat.apply(w)\na + b",
    "NoMat.apply(w)",
    "a, b = Mat.apply(w)\na",
    "Setup.apply(w, x)",
    "torch.vmap(lambda a: Setup.apply(a, a * 2))(w)",
    "torch.func.grad(lambda a: Setup.apply(a, a * 2)[0].sum())(w)",
    "torch.vmap(torch.func.grad(lambda a: Setup.apply(a, a * 2)[0].sum()))(w)",
    "WithVmap.apply(w)",
    "torch.func.jvp(WithJvp.apply, (w,), (x,))",
    "torch.func.grad(lambda a: WithJvp.apply(a).sum())(w)",
    "Sub.apply(w)",
    "SubSub.apply(w)",
    "Cls.apply(w, 1, 2)",
    "TwoSame.apply(w * 1, w * 1)",
    "t = w * 1\nTwoSame.apply(t, t)",
    "Ident.apply(w)",
    "Ident.apply(w) * 2",
    "Ident.apply(x)",
    "ViewAs.apply(w)",
    "t = w * 2\nr = ViewAs.apply(t)\nt + 0, r",
    "ViewAs.apply(w).t() + 0",
    "fn = Double.apply\nfn(w) + fn(fn(w))",
    "f_apply(w, 2)",
    "t = w\nfor n in range(3):\n    t = Double.apply(t)\nt",
    "NoneGrad.apply(w, v)",
    "CtxObj.apply(w)",
    "list(map(Double.apply, [w, v]))",
    "with torch.no_grad():\n    t = Double.apply(w)\nt",
    "checkpoint(Double.apply, w, use_reentrant=False)",
    "torch.autograd.functional.jacobian(Double.apply, w)",
    "r = Double.apply(w)\nr.grad_fn is not None, r",
    "r = Double.apply(w)\nr.mul_(2)\nr",
]

REFUSED: list[Row] = [
    ("torch.vmap(WithVmap.apply)(w)", "autograd-function"),
    ("torch.func.grad(lambda a: Once.apply(a).sum())(w)", "autograd-function"),
    ("torch.func.jacfwd(WithJvp.apply)(v)", "operator-error"),
    ("ListOut.apply(w)", "autograd-function"),
    ("r = Ident.apply(w)\nr.mul_(2)\nr", "operator-error"),
]
"""What PyTorch refuses, a rule for batches of the user's own, and a list of results."""


@table(ROWS)
def test_one_graph(row: Row) -> None:
    check_row(row, **MORE)


@table(REFUSED)
def test_refused(row: Row) -> None:
    check_row(row, any_break=True, **MORE)


@table(ROWS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_traced(row: str, dynamic: bool) -> None:
    function = program_of(row, INPUTS, MORE)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    agree(function, lambda: [INPUTS[name]() for name in names], dynamic)


def test_a_view_that_a_function_returns_keeps_its_gradient() -> None:
    """The result of a graph that is a view of an input once had the gradient of a view."""
    agree(lambda x: ViewAs.apply(x), lambda: [torch.randn(3, 4, requires_grad=True)], False)


def second_order(function, x):
    (first,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad((first * first).sum(), x)
    return first, second


def test_second_derivatives() -> None:

    x = torch.randn(3, 4, requires_grad=True)
    compiled = minitorch2.compile(lambda x: Double.apply(x) * 2, fullgraph=True)
    torch.testing.assert_close(
        second_order(compiled, x), second_order(lambda x: Double.apply(x) * 2, x)
    )


@pytest.mark.parametrize("backend", ["eager", "numba"])
def test_a_function_that_is_once_differentiable_stays_so(backend: str) -> None:

    x = torch.randn(3, 4, requires_grad=True)
    compiled = minitorch2.compile(lambda x: Once.apply(x) ** 2, backend=backend, fullgraph=True)
    (gradient,) = torch.autograd.grad(compiled(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


@pytest.mark.parametrize("function", [Once, SaveOut, NonTensor, ViewAs], ids=lambda c: c.__name__)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_function_of_a_leaf_made_inside_has_a_gradient(function, requires_grad: bool) -> None:
    """The passes once took the data of the leaf: `grad` found no history, and raised."""

    def program(x):
        leaf = x.clone().requires_grad_() if not x.requires_grad else x.detach().requires_grad_()
        extra = (3,) if function is NonTensor else ()
        result = function.apply(leaf, *extra)
        (gradient,) = torch.autograd.grad((result * leaf).sum(), leaf)
        return result.detach(), gradient

    x = torch.randn(3, 4, requires_grad=requires_grad)
    compiled = minitorch2.compile(program, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), program(x))


class Refusing(Function):
    @staticmethod
    def forward(ctx, x):
        if x.ndim == 1:
            raise ValueError("a vector")
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_a_forward_that_raises_without_gradient_leaves_the_grad_mode():
    def function(x, w):
        try:
            Refusing.apply(x)
        except ValueError:
            return w * x, torch.is_grad_enabled()

    x, w = torch.ones(3), torch.ones(3, requires_grad=True)
    product, enabled = minitorch2.compile(function, backend="eager", fullgraph=True)(x, w)
    assert product.requires_grad
    assert enabled


class Surrogate(torch.autograd.Function):
    """Keeps a number, a shape and a size that only another argument has."""

    @staticmethod
    def forward(ctx, v, slope, n):
        ctx.save_for_backward(v)
        ctx.slope, ctx.shape, ctx.n = slope, v.shape, n
        return (v > 0).to(v.dtype)

    @staticmethod
    def backward(ctx, g):
        (v,) = ctx.saved_tensors
        return g.reshape(ctx.shape) * ctx.n / (1 + ctx.slope * v.abs()) ** 2, None, None


@pytest.mark.parametrize("backend", ["eager", "numba"])
def test_numbers_that_vary_and_no_tensor_has_are_kept(backend):
    """Each call with another number broke the graph: no input of the graph had it."""

    def program(x, slope, n):
        return Surrogate.apply(x * 2, slope, n) + slope

    fast = minitorch2.compile(program, backend=backend, fullgraph=True)
    with stages.collect() as log:
        for rows, slope, n in ((2, 2.0, 3), (3, 4.5, 7), (5, 0.25, 2), (4, 8.0, 5)):
            x, y = (torch.linspace(-1, 1, rows, requires_grad=True) for _ in range(2))
            given, wanted = fast(x, slope, n), program(y, slope, n)
            given.sum().backward()
            wanted.sum().backward()
            assert_same((given, x.grad), (wanted, y.grad), 1e-6)
    assert log.counts["graphs"] == 2
    assert log.counts["frames_as_is"] == log.counts["backend_failures"] == 0
