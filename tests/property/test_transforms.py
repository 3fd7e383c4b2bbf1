"""Transforms of `torch.func` one inside the other, compiled: the numbers of eager.

A program is a short chain of operators and a stack of transforms around it. Both are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torch import func
from torch.autograd import forward_ad

import minitorch2

Function = Callable[..., Any]

STEPS: Final[dict[str, Function]] = {
    "sin": torch.sin,
    "square": lambda x: x * x,
    "softmax": lambda x: torch.softmax(x, -1),
    "centre": lambda x: x - x.mean(-1, keepdim=True),
    "where": lambda x: torch.where(x > 0, x, 0.1 * x),
    "matmul": lambda x: x @ torch.linspace(-1, 1, x.shape[-1] ** 2).view(x.shape[-1], -1),
    "tanh": torch.tanh,
    "cumsum": lambda x: x.cumsum(-1),
    "flip": lambda x: x.flip(-1),
}


def _jvp(f: Function) -> Function:
    return lambda x: func.jvp(f, (x,), (torch.cos(x),))[1]


def _vjp(f: Function) -> Function:
    def program(x: torch.Tensor) -> Any:
        value, pull = func.vjp(f, x)
        return pull(torch.ones_like(value))[0]

    return program


TRANSFORMS: Final[dict[str, Callable[[Function], Function]]] = {
    "vmap": func.vmap,
    "vmap of columns": lambda f: func.vmap(f, in_dims=-1, out_dims=-1),
    "grad": lambda f: func.grad(lambda x: f(x).sum()),
    "grad and value": lambda f: lambda x: func.grad_and_value(lambda y: f(y).sum())(x)[0],
    "jvp": _jvp,
    "vjp": _vjp,
    "jacrev": lambda f: lambda x: func.jacrev(f)(x).sum(-1),
    "jacfwd": lambda f: lambda x: func.jacfwd(f)(x).sum(-1),
}


def chain(steps: list[str]) -> Function:
    """The steps one after the other."""

    def program(x: torch.Tensor) -> torch.Tensor:
        for name in steps:
            x = STEPS[name](x)
        return x

    return program


@given(
    st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=3),
    st.sampled_from(("eager", "numba")),
    st.booleans(),
)
@settings(max_examples=max(settings().max_examples // 5, 1))
def test_tangents_of_dual_tensors_are_eagers(
    steps: list[str], backend: str, is_compiled_before: bool
) -> None:
    program = chain(steps)
    fast = minitorch2.compile(program, backend=backend)
    x = torch.linspace(-2, 2, 12).view(3, 4)
    if is_compiled_before:
        torch.testing.assert_close(fast(x), program(x))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.cos(x))
        wanted, found = (forward_ad.unpack_dual(f(dual)) for f in (program, fast))
        assert found.tangent is not None
        torch.testing.assert_close([*found], [*wanted])


@given(
    st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=3),
    st.lists(st.sampled_from(sorted(TRANSFORMS)), min_size=1, max_size=3),
)
@settings(
    max_examples=max(settings().max_examples // 5, 1),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
def test_transforms_of_transforms_are_eagers(steps: list[str], transforms: list[str]) -> None:
    program = chain(steps)
    for name in transforms:
        program = TRANSFORMS[name](program)
    x = torch.linspace(-2, 2, 24).view(2, 3, 4)
    try:
        wanted = program(x)
    except (RuntimeError, IndexError, ValueError):
        return  # a dimension too few
    for backend in ("eager", "aot_eager"):
        given_ = minitorch2.compile(program, backend=backend)(x)
        torch.testing.assert_close(given_, wanted, equal_nan=True, rtol=1e-4, atol=1e-5)
