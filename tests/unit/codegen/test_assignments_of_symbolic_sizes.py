"""Rows, columns and elements of tensors with symbolic sizes are assigned, with gradients."""

import pytest
import torch

import minitorch2
from minitorch2 import stages
from tests.operators.compare import assert_equal, observe

SHAPES = [(6, 6), (5, 7), (9, 4)]


def numbers(x):
    y = x * 2
    y[0] = 1.0
    y[1:3] = 1.5
    y[:, 0] += 3
    return y


def from_the_end(x):
    y = x * 2
    y[-1] = 4
    y[:, -2] = x[:, 0]
    y[-3:-1] = x[:2]
    return y


def at_computed_places(x):
    y = x * 2
    middle = x.shape[0] // 2
    y[middle] = 7.0
    y[middle - 1] = x[0]
    y[:middle] *= 2
    y[x.shape[0] - 1] = 1.5
    y.select(1, x.shape[1] - 1).mul_(2)
    return y


def in_steps(x):
    y = x * 2
    y[::2] = 1
    y[:, 1::2] = x[:, ::2][:, : x.shape[1] // 2]
    return y


def through_views(x):
    y = x * 1
    y.t()[0] = 5.0
    y.view(-1)[3] = 8.0
    y[0].fill_(2)
    y[:, 0].copy_(x[:, 1])
    y.diagonal().mul_(2)
    return y


def scattered(x):
    rows = torch.slice_scatter(x, x[:2] * 3, 0, 1, 3)
    row = torch.select_scatter(x, x[0] * 2, 0, -1)
    return rows, row, torch.select_scatter(x, x[:, 0] * 2, 1, 1)


def put(x):
    y = x.clone()
    y[torch.tensor([0, 2])] = 5.0
    y[torch.arange(x.shape[0] - 1)] = x[1:]
    y.index_put_((torch.tensor([1, 1]), torch.tensor([0, 1])), torch.tensor(2.0), accumulate=True)
    return y


def in_more_dimensions(x):
    y = x.new_zeros(x.shape[0], 3, x.shape[1])
    y[:, 1] = x
    y[0, 2] = x[0]
    y[:, :, 0] = 7.0
    return y


ASSIGNMENTS = (
    numbers, from_the_end, at_computed_places, in_steps, through_views, scattered, put,
    in_more_dimensions,
)  # fmt: skip


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("function", ASSIGNMENTS, ids=lambda f: f.__name__)
def test_parts_of_symbolic_sizes_are_assigned(function, backward):
    compiled = minitorch2.compile(function, dynamic=True, fullgraph=True)
    with stages.collect() as log:
        for shape in SHAPES:
            inputs = ((torch.randn(shape).requires_grad_(backward),), {})
            given = observe(compiled, inputs, lambda value: value, backward)
            assert_equal(given, observe(function, inputs, lambda value: value, backward))
    assert log.counts["fallbacks"] == 0
    assert log.counts["graphs"] <= 2  # a second one for what equal sizes have guarded


@pytest.mark.parametrize("backend", ["numba", "triton"])
def test_a_column_from_the_end_is_read_in_backward(backend):
    """Its position was counted from the end twice."""

    def program(x):
        y = x * 2
        y[:, -2] = x[:, 0]
        return y

    compiled = minitorch2.compile(program, backend=backend, dynamic=True, fullgraph=True)
    x, weights = torch.randn(6, 5, requires_grad=True), torch.rand(6, 5)
    (given,) = torch.autograd.grad(compiled(x), x, weights)
    (wanted,) = torch.autograd.grad(program(x), x, weights)
    torch.testing.assert_close(given, wanted)


def test_a_constant_with_a_symbolic_size_is_not_folded():
    def program(x):
        y = x * 2
        y[0] = 1.0
        return y

    compiled = minitorch2.compile(program, dynamic=True, fullgraph=True)
    for shape in SHAPES[:2]:
        x = torch.randn(shape)
        assert torch.equal(compiled(x), program(x))
