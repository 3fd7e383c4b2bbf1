"""Tensors: metadata folds, operators become nodes, reading data breaks the graph."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import minitorch2
from minitorch2 import stages
from tests.unit.bytecode.trackers.program import check

X = torch.arange(6.0).reshape(2, 3)
Y = torch.ones(2, 3) * 2

OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow]
OPERATORS += [operator.floordiv, operator.mod, operator.lt, operator.ge, operator.eq, operator.ne]


@pytest.mark.parametrize("function", OPERATORS)
def test_operators_and_reflected_operators(function: Callable[[Any, Any], Any]) -> None:
    check(lambda x, y: (function(x, y), function(x, 2), function(2, x)), X, Y)


def test_matmul_unary_and_inplace_operators() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        z = x @ y.T
        z += 1
        z *= -z
        return +z, ~(z > 0), abs(z)

    check(program, X, Y)


def test_inplace_on_an_argument_is_seen_outside() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        x += y
        x.mul_(2)
        x[0] = 7
        return x

    check(program, X, Y)


def test_metadata_is_constant() -> None:
    def program(x: torch.Tensor) -> Any:
        if x.dtype is torch.float32 and x.device.type == "cpu" and x.ndim == 2:
            x = x + x.shape[0]
        sizes = (x.size(), x.size(-1), x.dim(), x.numel(), x.stride(), len(x), x.is_contiguous())
        return x.view(x.shape[1], -1), sizes, x.is_floating_point(), x.requires_grad, x.is_leaf

    check(program, X)


@pytest.mark.parametrize(
    "key",
    [0, -1, slice(None, 1), (0, 1), (..., 0), (None, 0), (slice(None), slice(0, 2)), [1, 0]],
    ids=str,
)
def test_indexing(key: Any) -> None:
    check(lambda x: x[key] + 1, X)


def test_index_with_a_tensor() -> None:
    check(lambda x, i: (x[i], x[:, i]), X, torch.tensor([1, 0]))


def test_boolean_mask() -> None:
    check(lambda x: x[x > 2] + 1, X)


def test_iteration_and_unpacking() -> None:
    def program(x: torch.Tensor) -> Any:
        first, second = x
        total = first * 0
        for row in x:
            total = total + row
        a, *rest = x.unbind(1)
        return total, second, a, rest, [r.sum() for r in x]

    check(program, X)


def test_transpose_attributes() -> None:
    check(lambda x: (x.T, x.mT, x.data + 1, x.real), X)


def test_methods_return_tuples() -> None:
    def program(x: torch.Tensor) -> Any:
        values, indices = x.max(dim=1)
        top = torch.topk(x, 2)
        return values, indices, top.values, top, x.split(1), x.chunk(3, dim=1)

    check(program, X)


@pytest.mark.parametrize(
    ("program", "graphs"),
    [
        (lambda x: x * 2 if x.sum() > 0 else x, 2),
        (lambda x: x + int(x.sum()), 2),
        (lambda x: x * 2 if x.sum().item() > 0 else x, 2),
        (lambda x: x * [1, 2][x.argmax() * 0], 2),
    ],
)
def test_data_dependent_reads_break(program: Callable[..., Any], graphs: int) -> None:
    check(program, torch.ones(2, 3), graphs=graphs, breaks=1)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x + x.sum().item(),
        lambda x: (x * 2).tolist(),
        lambda x: x + float(x.sum()),
        lambda x: x + int(x.sum().long()),
        lambda x: x.nonzero() + 1,
    ],
)
def test_numbers_that_come_out_of_data(program: Callable[..., Any]) -> None:
    check(program, torch.ones(2, 3))


def test_functional_and_factories() -> None:
    def program(x: torch.Tensor) -> Any:
        h = F.gelu(F.linear(x, torch.ones(4, 3), None))
        mask = torch.full((2, 2), float("-inf")).triu(1)
        position = torch.arange(x.shape[1], device=x.device)
        return F.softmax(h, dim=-1), torch.zeros_like(x) + position, mask, torch.tensor([1, 2])

    check(program, X)


def test_random_functions_stay_random() -> None:
    def program(x: torch.Tensor) -> Any:
        return torch.rand(10) + F.dropout(torch.ones(10), 0.5) + torch.randn_like(x).sum()

    check(program, X)


def test_torch_cat_stack_with_lists() -> None:
    check(
        lambda x, y: (torch.cat([x, y], dim=1), torch.stack((x, y)), torch.einsum("ij,kj", x, y)),
        X,
        Y,
    )


def test_attribute_error_is_the_users() -> None:
    def program(x: torch.Tensor) -> Any:
        try:
            return (x + 1).nothing
        except AttributeError:
            return x - 1

    check(program, X)


def test_hasattr_getattr_isinstance() -> None:
    def program(x: torch.Tensor) -> Any:
        assert isinstance(x, torch.Tensor) and not isinstance(x, torch.nn.Parameter)
        assert hasattr(x, "shape") and torch.is_tensor(x) and type(x) is torch.Tensor
        return x.sum(), x.new_zeros(3), x.to(torch.float64), x.type_as(x)

    check(program, X)


def test_tensor_compared_with_none() -> None:
    check(lambda x, y: x + 1 if x is not None and y is None else x, X, None)


def test_requires_grad_results() -> None:
    x = torch.ones(3, requires_grad=True)

    def program(x: torch.Tensor) -> Any:
        y = x * 2
        with torch.no_grad():
            z = x * 3
        return y, z, y.requires_grad, z.requires_grad, x.detach()

    check(program, x)


class Nothing(TorchDispatchMode):
    """A dispatch mode that changes nothing."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_number_of_dispatch_modes() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + len(torch.utils._python_dispatch._get_current_dispatch_mode_stack())

    compiled = minitorch2.compile(f, backend="eager")
    with stages.collect() as log:
        assert compiled(torch.zeros(1)).item() == 0
    assert (log.counts["graphs"], log.counts["graph_breaks"]) == (1, 0)
    with Nothing(), Nothing():
        assert compiled(torch.zeros(1)).item() == 2
    assert compiled(torch.zeros(1)).item() == 0


def test_grad_mode_functions() -> None:
    @torch.no_grad()
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def program(x: torch.Tensor) -> Any:
        with torch.enable_grad():
            y = inner(x), torch.is_grad_enabled()
        with torch.set_grad_enabled(False):
            return y, x + 1, torch.is_grad_enabled()

    check(program, torch.ones(2, requires_grad=True))
