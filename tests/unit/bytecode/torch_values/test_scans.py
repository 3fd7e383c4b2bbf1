"""Scans with a function of the program's own, and the trees of tensors that they are about."""

from collections import OrderedDict, namedtuple

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch.utils import _pytree as pytree

import minitorch2
from tests.unit.bytecode.capturing import check

Pair = namedtuple("Pair", "left right")


def combine(left, right):
    """One step of a linear recurrence: x -> a*x + b."""
    return left[0] * right[0], right[0] * left[1] + right[1]


def in_a_row(a, b, dim, reverse):
    places = list(zip(a.unbind(dim), b.unbind(dim)))
    results = []
    for place in reversed(places) if reverse else places:
        results.append(combine(results[-1], place) if results else place)
    results = results[::-1] if reverse else results
    return tuple(torch.stack(each, dim) for each in zip(*results))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8, 13])
def test_scans_are_captured(count, reverse):
    shape = [2, 3, 4]
    for dim in (0, 1, -1):
        shape[dim] = count
        a, b = torch.rand(shape), torch.rand(shape)
        compiled = minitorch2.compile(
            lambda a, b, dim=dim: associative_scan(combine, (a, b), dim, reverse=reverse),
            backend="eager",
            fullgraph=True,
        )
        torch.testing.assert_close(compiled(a, b), in_a_row(a, b, dim, reverse))


def test_gradients_of_a_scan():
    a, b = (torch.rand(5, 6, requires_grad=True) for _ in "ab")
    compiled = minitorch2.compile(
        lambda a, b: associative_scan(combine, (a, b), 1)[1], backend="aot_eager", fullgraph=True
    )
    torch.testing.assert_close(
        torch.autograd.grad(compiled(a, b).sum(), (a, b)),
        torch.autograd.grad(in_a_row(a, b, 1, False)[1].sum(), (a, b)),
    )


def test_trees_of_tensors():
    def f(x):
        tree = {"a": [x, (x + 1, 2)], "b": Pair(x * 2, None), "c": OrderedDict(z=x)}
        leaves, structure = pytree.tree_flatten(tree)
        twice = pytree.tree_map(lambda v: v if v is None else v * 2, tree)
        return pytree.tree_unflatten(leaves, structure), twice, len(pytree.tree_leaves(tree))

    check(f, torch.randn(3), graphs=1)
