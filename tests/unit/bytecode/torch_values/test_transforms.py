"""Transforms of functions: `torch.func` and `torch.autograd.functional`, one graph each."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import grad, hessian, jacrev, stack_module_state

import minitorch2
from minitorch2 import config, stages
from minitorch2.errors import GraphBreakError
from tests.unit.bytecode.torch_values.programs import INPUTS, Row, check_row, program_of, table


class Energy(nn.Module):
    """A model whose result is the gradient of what it computes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def energy(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).sin().sum()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return -torch.func.grad(self.energy)(x)


class Tied(nn.Module):
    """Two names of one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


def doubled_inside(a: torch.Tensor) -> torch.Tensor:
    """Double a tensor where a transform runs, as libraries ask before they read data."""
    return a * 2 if torch._C._are_functorch_transforms_active() else a.sin()


def energy(a: torch.Tensor) -> torch.Tensor:
    """A scalar that depends on all elements, with all derivatives."""
    return (a.sin() * a).sum() + (a * a.flip(-1)).prod(-1).sum()


torch.manual_seed(0)
MODEL = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
MODELS = [nn.Sequential(nn.Linear(4, 3), nn.Tanh()) for _ in range(3)]
STACKED = stack_module_state(MODELS)
BASE = copy.deepcopy(MODELS[0]).to("meta")
PARAMETERS = {name: value.detach() for name, value in MODEL.named_parameters()}

MORE: dict[str, Any] = {
    "energy": energy,
    "made_outside": (grad(energy), torch.vmap(grad(energy)), hessian(energy), jacrev(torch.sin)),
    "model": MODEL,
    "models": MODELS,
    "stacked": STACKED,
    "base": BASE,
    "parameters": PARAMETERS,
    "net": Energy(),
    "tied": Tied(),
    "lstm": nn.LSTM(4, 3),
    "doubled_inside": doubled_inside,
    "vmap": torch.vmap,
    "func": torch.func,
    "functional": torch.autograd.functional,
}

VMAP: list[Row] = [
    "vmap(lambda a: (a * v).sin())(w)",
    "vmap(lambda a: a.sum())(w) + 1",
    "vmap(lambda a, c: a * c, in_dims=(0, 1), out_dims=1)(w, w.t().contiguous())",
    "vmap(lambda a, c: a * c, in_dims=(-1, None))(w, z)",
    "vmap(lambda a, c: a * c, in_dims=(0, None))(w, 2.5)",
    "vmap(lambda a, scale: a * scale)(w, scale=v)",
    "vmap(lambda d: {'s': d['a'] * d['b'][0], 'u': (d['a'],)})({'a': w, 'b': [x]})",
    "vmap(lambda d, t: d['a'] * d['b'] + t, in_dims=({'a': 0, 'b': None}, 1))"
    "({'a': w, 'b': v}, x.t())",
    "vmap(lambda a: (a, [a * 2, a.sum()]), out_dims=(1, [0, 0]))(w)",
    "vmap(lambda a: (a, torch.ones(2)), out_dims=(0, None))(w)",
    "vmap(lambda a: a * 2, out_dims=(1,))(w)",
    "vmap(vmap(lambda a: a.sin() * 2))(w)",
    "vmap(lambda a: vmap(lambda c: (a * c).sum())(x))(w)",
    "vmap(lambda a: a.clone().mul_(2).add_(a))(w)",
    "vmap(lambda a: a.mul_(2))(x)",
    "vmap(lambda a: a.sin(), chunk_size=2)(w)",
    "vmap(lambda a: a)(w)",
    "vmap(torch.dot)(w, x)",
    "vmap(model)(w)",
    "vmap(lambda a: a.view(2, 2).t().reshape(-1)[1:])(w)",
    "vmap(lambda a: torch.where(a > 0, a, -a).cumsum(0))(w)",
    "vmap(lambda a: torch.cat([a, a * 2]).max(0).values)(w)",
    "vmap(lambda a: a.shape[0] * a.size(-1) * a)(w)",
    "vmap(doubled_inside)(w), doubled_inside(w), func.grad(lambda a: doubled_inside(a).sum())(w)",
    "f = vmap(energy)\nf(w) + f(x)",
    "f = vmap(energy)\nf.__name__, f(w)",
    "vmap(lambda a: a + torch.rand(4), randomness='different')(w)",
    "vmap(lambda a: a + torch.rand(4), randomness='same')(w)",
    "vmap(lambda a: F.dropout(a, 0.5), randomness='different')(w)",
    "vmap(lambda a: func.functionalize(lambda b: b.clone().add_(1))(a))(w)",
]

DERIVATIVES: list[Row] = [
    "func.grad(energy)(w)",
    "with torch.no_grad():\n    g = func.grad(lambda a: (a * v).sin().sum())(w)\ng",
    "func.grad(lambda a: ((a * v).sin().sum(), {'k': a * 2}), has_aux=True)(w)",
    "func.grad(lambda a, c: (a['p'] * c).sin().sum(), argnums=(0, 1))({'p': w}, x)",
    "func.grad(lambda a, c: (a['p'] * c).sin().sum(), argnums=-1)({'p': w}, x)",
    "func.grad(lambda a, scale: (a * scale).sin().sum())(w, scale=v)",
    "func.grad(lambda a, n: (a ** n).sum())(w, 3)",
    "func.grad(lambda a: ((a - F.one_hot(j, 4)) ** 2).mean())(w)",
    "func.jvp(lambda a: (a * F.one_hot(j, num_classes=4)).sin(), (w,), (x,))",
    "func.grad_and_value(energy)(w)",
    "func.grad_and_value(lambda a: (energy(a), a * 2), has_aux=True)(w)",
    "func.grad(lambda a: func.grad(energy)(a).pow(2).sum())(w)",
    "func.grad(lambda a: func.grad(lambda c: (c * a).sin().sum())(a).pow(2).sum())(w)",
    "func.grad(lambda a: vmap(energy)(a).sum())(w)",
    "vmap(func.grad(energy))(w)",
    "vmap(func.grad(energy), in_dims=1)(w)",
    "func.vjp(lambda a: (a * v).sin(), w)[1](x)",
    "func.vjp(lambda a, c: {'t': a * c['q']}, w, {'q': x})[1]({'t': x})",
    "t = x + 0\nt.mul_(2)\nr, pull = func.vjp(torch.sin, t)\nr, pull(x)",
    "func.jvp(lambda a: (a * v).sin(), (w,), (x,))",
    "func.jvp(lambda a: ((a * v).sin(), a), (w,), (x,), has_aux=True)",
    "func.jvp(lambda a, c: [a * c, {'t': a.sin()}], (w, x), (x, w))",
    "with torch.no_grad():\n    t = func.jvp(energy, (w,), (x,))\nt",
    "func.jvp(lambda a: 1 - a.sin() * 2 + a / 3, (w,), (x,))",
    "func.jvp(lambda a: 2 / (a * a + 1.5) - 1, (w,), (x,))",
    "func.jvp(lambda a: a.sin() + torch.tensor(2.0) * a, (w,), (x,))",
    "func.jvp(lambda a: torch.where(a > 0, a, 0.5).clamp(max=2), (w,), (x,))",
    "func.jacfwd(lambda a: a * 2 + 1)(w)",
    "functional.jvp(lambda a: a * 2 + 1, w, x)",
    "func.jacrev(lambda a: (a * v).sin())(w)",
    "func.jacrev(lambda a: (a * v).sin(), chunk_size=2)(w)",
    "func.jacrev(lambda a, c: {'o': a['p'] * c, 'u': c}, argnums=(0, 1))({'p': w}, x)",
    "func.jacrev(lambda a: ((a * v).sin(), a), has_aux=True)(w)",
    "func.jacfwd(lambda a: (a * v).sin())(w)",
    "func.jacfwd(lambda a, c: (a * c, a.sum()), argnums=(1,))(w, x)",
    "func.hessian(energy)(w)",
    "func.jacrev(func.jacfwd(energy))(w)",
    "func.jacfwd(func.jacfwd(energy))(v)",
    "vmap(func.hessian(energy))(w)",
    "vmap(lambda a: func.jvp(energy, (a,), (v,))[1])(x)",
    "vmap(func.jacrev(model))(w)",
    "[made(w) for made in made_outside]",
    "functional.jacobian(lambda a: (a * v).sin(), w)",
    "functional.jacobian(lambda a: (a * v).sin(), w, create_graph=True)",
    "functional.jacobian(lambda a: (a * v).sin(), w, vectorize=True)",
    "functional.jacobian(lambda a, c: (a * c, a.sum()), (w, x))",
    "functional.hessian(energy, w)",
    "functional.hessian(lambda a, c: (a * c).sin().sum(), (w, x), create_graph=True)",
    "functional.vjp(lambda a: (a * v).sin(), w, x)",
    "functional.vjp(energy, w, create_graph=True)",
    "functional.jvp(lambda a: (a * v).sin(), w, x)",
    "functional.hvp(energy, w, x)",
    "functional.vhp(lambda a, c: (a * c).sin().sum(), (w, x), (x, x))",
]

MODULES: list[Row] = [
    "func.functional_call(model, parameters, (w,))",
    "func.functional_call(model, ({'0.bias': torch.ones(5)}, {'2.bias': torch.zeros(2)}), w)",
    "func.functional_call(model, parameters, (), {'input': w})",
    "func.grad(lambda t: func.functional_call(model, t, (w,)).pow(2).mean())(parameters)",
    "vmap(func.grad_and_value(lambda t, a: func.functional_call(model, t, (a,)).sum()),"
    " in_dims=(None, 0))(parameters, w)",
    "vmap(lambda t, b, a: func.functional_call(base, (t, b), (a,)), in_dims=(0, 0, None))"
    "(*stacked, w)",
    "with torch.no_grad():\n"
    "    t, b = func.stack_module_state(models)\n"
    "    r = vmap(lambda t, b, a: func.functional_call(base, (t, b), (a,)), (0, 0, None))(t, b, x)\n"
    "r",
    "func.functional_call(tied, {'first.weight': q}, w)",
    "func.functional_call(tied, {'first.weight': q}, w, tie_weights=False)",
    "net(w)",
    "vmap(net)(w)",
]


def linearized(x: torch.Tensor, d: torch.Tensor) -> Any:
    value, push = torch.func.linearize(lambda a: (a.sin() * a).cumsum(-1), x)
    return value, push(d), push(d * 2)


@table([*VMAP, *DERIVATIVES, *MODULES])
def test_one_graph(row: Row) -> None:
    check_row(row, **MORE)


ROUNDED: list[str] = [
    "t, pull = func.vjp(lambda a: (a * y).sin(), w)\nt, pull(x), pull(x * 2)",
    "t, pull, aux = func.vjp(lambda a: ((a * y).sin(), a + 1), w, has_aux=True)\nt, pull(x), aux",
    "functional.hessian(energy, w, vectorize=True, outer_jacobian_strategy='forward-mode')",
]
"""Programs whose sums of gradients are rounded in another order, or lie otherwise in memory."""

REFUSED: list[Row] = [
    ("t = x + 0\nr, pull = func.vjp(torch.sin, t)\nt.mul_(0)\nr, pull(x)", "function-transform"),
    ("func.vjp(torch.sin, x)[1]", "function-transform"),
    ("vmap(lambda a: a.sum().item())(x)", "scalar-read"),
    ("vmap(lambda a: a * 2 if a.sum() > 0 else a)(x)", "data-dependent-branch"),
    ("vmap(lambda a: a[a > 0])(x)", "data-dependent"),
    ("vmap(lambda a: a + torch.rand(4))(x)", "operator-error"),
    ("vmap(lambda a: (a, 3))(x)", "function-transform"),
    ("vmap(lambda a, c: a * c)(x, 2.0)", "function-transform"),
    ("vmap(lambda a: a, in_dims=3)(x)", "function-transform"),
    ("func.grad(lambda a: (x.mul_(2) * a).sum())(y)", "operator-error"),
    ("func.grad(lambda a: a * 2)(x)", "operator-error"),
    ("func.grad(lambda a: a.sum())(i)", "function-transform"),
    ("lst\nvmap(lambda a: lst.append(a.shape) or a)(x)", "side-effect-inside"),
]
"""Programs that PyTorch refuses, or that no node can express: it runs them itself."""

RANDOM = ("rand(", "dropout")
"""Numbers that a compiled graph draws in another order."""


@table(REFUSED)
def test_refused(row: Row) -> None:
    check_row(row, any_break=True, **MORE)
    function = program_of(row[0], INPUTS, MORE)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    compiled = minitorch2.compile(function, backend="eager", fullgraph=True)
    own_error = row[1] == "operator-error"
    expected = (
        pytest.raises(RuntimeError)
        if own_error
        else pytest.raises(GraphBreakError, match=rf"\[{row[1]}\]")
    )
    with expected:
        compiled(*(INPUTS[name]() for name in names))


@table(
    [row for row in [*VMAP, *DERIVATIVES, *MODULES, *ROUNDED] if not any(r in row for r in RANDOM)]
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_traced(row: str, dynamic: bool) -> None:
    """The transform becomes operators of one joint graph; sizes may be symbols."""
    function = program_of(row, INPUTS, MORE)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    agree(function, lambda: [INPUTS[name]() for name in names], dynamic)


def test_a_graph_from_outside_of_transforms_is_not_used_inside() -> None:
    compiled, x = minitorch2.compile(doubled_inside, fullgraph=True), torch.ones(3)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), x.sin())
        added = torch.vmap(lambda a: compiled(x) + a)(torch.zeros(2, 3))
        torch.testing.assert_close(added[1], x * 2)


@pytest.mark.parametrize("dynamic", [False, True])
def test_linearize(dynamic: bool) -> None:
    agree(linearized, lambda: [torch.randn(3, 4), torch.randn(3, 4)], dynamic)


def agree(function: Callable[..., Any], make: Callable[[], Sequence[Any]], dynamic: bool) -> None:
    """Values and gradients of the compiled function, in one graph, are eager's."""
    compiled = minitorch2.compile(
        function, backend="aot_eager_decomp_partition", fullgraph=True, dynamic=dynamic
    )
    torch.manual_seed(0)
    with config.patch(suppress_errors=False), stages.collect() as log:
        found = outcome(compiled, make())
    assert log.counts["graphs"] == 1
    torch.manual_seed(0)
    torch.testing.assert_close(found, outcome(function, make()), check_stride=False)


def outcome(function: Callable[..., Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The tensors of the result, which of them require gradients, and the inputs' gradients."""
    leaves = torch.utils._pytree.tree_leaves(function(*inputs))
    results = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    heads = [result for result in results if result.requires_grad]
    wanted = [value for value in inputs if getattr(value, "requires_grad", False)]
    found: Sequence[Any] = ()
    if heads and wanted:
        total = sum((head * head).sum() for head in heads)
        found = torch.autograd.grad(total, wanted, allow_unused=True)
    return results, [result.requires_grad for result in results], list(found), list(inputs)


@pytest.mark.parametrize("backend", ["aot_eager", "numba"])
def test_zeros_without_memory_are_constants_like_others(backend):
    """Regression: forward mode made zeros without memory, which a kernel read: a crash."""
    network = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    parameters = dict(network.named_parameters())

    def curvature(parameters, points):
        def value(x):
            return torch.func.functional_call(network, parameters, (x.reshape(1),)).squeeze()

        return torch.vmap(lambda x: torch.func.hessian(value)(x))(points).square().mean()

    compiled = minitorch2.compile(curvature, backend=backend, fullgraph=True)
    for size in (4, 4, 6):
        points, leaves = torch.rand(size), [*parameters.values()]
        found = [
            torch.autograd.grad(call(parameters, points), leaves, allow_unused=True)
            for call in (compiled, curvature)
        ]
        torch.testing.assert_close(*found)


def test_functionalize_is_a_transform_for_those_who_ask() -> None:
    """Regression: `functionalize`, which capture looks through, was no transform to the program."""

    def both(x: torch.Tensor) -> torch.Tensor:
        return torch.func.functionalize(doubled_inside)(x) + doubled_inside(x)

    x = torch.rand(3)
    torch.testing.assert_close(minitorch2.compile(both, backend="eager")(x), both(x))
