"""The builtins `min` and `max` of tensors, and objects that are told apart by their identity."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.testing import assert_close

import minitorch2
from minitorch2 import stages

Function = Callable[..., Any]


def of_two(x):
    return max(x.sum(), x.mean()) * 2


def of_nans(x):
    a, b = x.sum() * float("nan"), x.mean()
    return max(a, b) + 0, max(b, a) + 0, min([a, b, a * 2]) + 0


def of_a_loop(x):
    best = None
    for row in x:
        best = row.sum() if best is None else min(best, row.sum())
    return best


def by_key(x):
    return max([row.sum() for row in x], key=lambda total: -total) * 3


def written_after(x):
    a, b = x.sum(), x.mean()
    max(a, b).add_(1)
    return a, b


def choice_written(x):
    a, b = x.sum(), x.mean()
    chosen = max(a, b)
    a.add_(5)
    b.sub_(5)
    return chosen


def both_returned(x):
    a, b = x.sum(), x.mean()
    chosen = max(a, b)
    return chosen, a, b, chosen is a


def of_other_leaves(x, y):
    return max(x.sum(), y.sum()) * 2


def of_an_input(x, y):
    return max(x, y[0, 0])


def agree(function: Function, *inputs: torch.Tensor, **options: Any) -> stages.StageLog:
    minitorch2.reset()
    compiled = minitorch2.compile(function, **options)
    with stages.collect() as log:
        found, expected = ([each(*inputs) for _ in range(2)] for each in (compiled, function))
    assert_close(found, expected, equal_nan=True)
    if inputs[0].requires_grad:
        heads = [r for r in torch.utils._pytree.tree_leaves(found) if torch.is_tensor(r)]
        wanted = [r for r in torch.utils._pytree.tree_leaves(expected) if torch.is_tensor(r)]
        gradients = [
            torch.autograd.grad(sum(each), inputs, allow_unused=True) for each in (heads, wanted)
        ]
        assert_close(*gradients, equal_nan=True)
    return log


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["eager", "numba"])
@pytest.mark.parametrize("function", [of_two, of_nans, of_a_loop, by_key])
def test_extremes_are_one_graph(function: Function, backend: str, dynamic: bool) -> None:
    x = torch.randn(3, 4, requires_grad=True)
    log = agree(function, x, fullgraph=True, backend=backend, dynamic=dynamic)
    assert log.counts["graphs"] == 1


@pytest.mark.parametrize("function", [written_after, choice_written, both_returned])
def test_what_python_would_have_taken_is_seen(function: Function) -> None:
    """The graph breaks at the comparison."""
    log = agree(function, torch.randn(3, 4))
    assert log.counts["graph_breaks"] >= 1


@pytest.mark.parametrize("function", [of_other_leaves, of_an_input])
def test_extremes_that_break(function: Function) -> None:
    """No gradient, not one of zeros, flows to the other tensor; an input stays the same object."""
    x = torch.randn((), requires_grad=True)
    log = agree(function, x, torch.randn(3, 4, requires_grad=True))
    assert log.counts["graph_breaks"] == 1


def counted(x, y, others):
    seen: dict[int, int] = {}
    for each in (x, y, *others, x + 1):
        seen[id(each)] = seen.get(id(each), 0) + 1
    return sorted(seen.values()), id(x) == id(y), id(others[0]) != id(x), x + y


def test_identities_are_keys() -> None:
    """What is one object and what is not is guarded."""
    x, y, z = torch.randn(3).unbind(0)
    options = {"recompile_limit": 20}
    compiled = minitorch2.compile(counted, fullgraph=True, backend="eager", options=options)
    lists: list[list[Any]] = [[x, y], [z, z], [x, z], [[], []], [object(), "a"][:1]]
    for others in (*lists, *lists):
        for pair in ((x, y), (x, x)):
            assert_close(compiled(*pair, others), counted(*pair, others))
    assert minitorch2.compile(id)(x) == id(x)
    named = minitorch2.compile(lambda x: (id(x), x + 1), fullgraph=True, backend="eager")
    assert named(y)[0] == id(y) and named(z)[0] == id(z)


def test_ids_met_again_as_numbers() -> None:
    """Behind a break ids are numbers: among these no id was found."""

    def counted_twice(x):
        seen = {id(x): 2}
        pairs = {(id(x), 1)}
        print(end="")
        return x * seen.get(id(x), 3), (id(x), 1) in pairs, id(x) in set(seen)

    compiled = minitorch2.compile(counted_twice, backend="eager")
    for _ in range(2):
        x = torch.randn(3)
        assert_close(compiled(x), counted_twice(x))


def test_the_greater_of_a_tensor_and_a_number_is_one_of_the_two_objects() -> None:
    """Python gives the tensor or the float: the graph breaks at the comparison, once."""

    def greater(x):
        y = x * 2
        return max(y.sum(), 0.5), min(1, y.mean()), y

    compiled = minitorch2.compile(greater, backend="eager")
    for value in (2.0, -2.0):
        given, wanted = compiled(torch.full((3,), value)), greater(torch.full((3,), value))
        assert [type(each) for each in given] == [type(each) for each in wanted]
        assert_close([*map(float, given[:2])], [*map(float, wanted[:2])])
    assert len(minitorch2.explain(greater)(torch.ones(3)).breaks) == 2


def test_a_fork_outside_of_scripts_gives_a_future_of_pytorchs() -> None:
    def forked(x):
        future = torch.jit.fork(torch.sin, x * 2)
        return torch.jit.wait(future) + 1, future

    given, future = minitorch2.compile(forked, backend="eager")(torch.ones(3))
    wanted, other = forked(torch.ones(3))
    assert_close(given, wanted)
    assert type(future) is type(other)
