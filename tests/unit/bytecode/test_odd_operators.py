"""Programs that use less common parts of PyTorch; each behaves as in eager when it is captured."""

# ruff: noqa: E741, RET503 - odd on purpose

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from minitorch2 import config
from minitorch2.testing.assertions import assert_matches_eager

X = torch.tensor([1.0, -2.0, 3.0])
W = torch.ones(3, 3) / 3
CASES = []


def case(*args):
    """Add a function with its arguments."""

    def register(function):
        CASES.append(pytest.param(function, args, id=function.__name__))
        return function

    return register


@case(X, W)
def autocast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = w @ w
    return y, w @ x


@case(X, W)
def autocast_break(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = w @ w
        print(y.dtype)
        z = w @ w
    return y, z, (w @ w)


@torch.no_grad()
def ng(x):
    return x * 2


@case(X.clone().requires_grad_())
def nograd_deco(x):
    return ng(x).requires_grad, x * 2


@case(X)
def inference(x):
    with torch.inference_mode():
        y = x * 2
    return y.is_inference()


@case(X)
def functional(x):
    return torch.nn.functional.softmax(x, -1) + torch.nn.functional.gelu(x)


@case(X)
def einsum(x):
    return (
        torch.einsum("i,j->ij", x, x).sum(),
        torch.linalg.norm(x),
        x.new_zeros(2),
        torch.arange(3) + x,
        torch.tensor([1, 2.0]),
        torch.full((2,), 3),
    )


@case(X)
def dev(x):
    return (
        x.to(torch.float64).to("cpu"),
        x.dtype,
        x.device,
        x.type(),
        x.is_floating_point(),
        torch.finfo(x.dtype).eps,
    )


@case(X)
def detach(x):
    return x.detach().clone().requires_grad_()


@case(X)
def backward_inside(x):
    y = x.clone().requires_grad_()
    (y * y).sum().backward()
    return y.grad


@case(X)
def grad_inside(x):
    y = x.clone().requires_grad_()
    return torch.autograd.grad((y * y).sum(), y)[0]


@case(X)
def checkpointed(x):
    return checkpoint(lambda t: t.sin().cos(), x, use_reentrant=False)


@case(X)
def vm(x):
    return torch.func.vmap(lambda t: t * 2)(x)


@case(X)
def data_attr(x):
    x.data.mul_(2)
    x.foo = 3
    return x, x.foo


@case(X)
def out_kw(x):
    o = torch.empty(3)
    torch.add(x, 1, out=o)
    return o


@case(X)
def optim(x):
    p = nn.Parameter(x.clone())
    o = torch.optim.SGD([p], lr=0.1)
    l = (p * p).sum()
    l.backward()
    o.step()
    return p.detach()


@case(X)
def dictcomp(x):
    return {k: v.sum() for k, v in {"a": x, "b": x + 1}.items()}


@case(X)
def topk(x):
    r = torch.topk(x, 2)
    return r.values, r.indices, torch.sort(x), type(torch.max(x.view(1, 3), 1)).__name__


@case(X)
def unique(x):
    return torch.unique(x), x[x > 0], torch.nonzero(x), x.masked_select(x < 0)


@case(X)
def rnn(x):
    torch.manual_seed(3)
    return nn.LSTM(3, 4)(x.view(1, 1, 3))[0]


@case(X)
def lambda_default(x):
    return [f(x) for f in [lambda t, i=i: t * i for i in range(3)]]


@case(X)
def deep(x):
    try:
        try:
            raise ValueError(1)
        finally:
            x = x + 1
    except ValueError:
        try:
            raise KeyError(2)
        except KeyError:
            print("k")
            x = x * 2
        print("v")
    return x


@case(X)
def ret_in_finally(x):
    for i in range(3):
        try:
            if i == 1:
                return x + i
        finally:
            print("f", i)


@case(X)
def with_ret(x):
    with torch.no_grad():
        print("r")
        return x * 2


@pytest.mark.parametrize(("function", "args"), CASES)
def test_behaves_as_in_eager(function, args):
    with config.patch(suppress_errors=False):
        assert_matches_eager(function, *args)
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")
