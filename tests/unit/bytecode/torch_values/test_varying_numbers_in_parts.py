"""Numbers that vary from call to call inside parts that capture records apart."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import minitorch2
from minitorch2 import stages
from minitorch2.testing.assertions import assert_same


def checkpointed(x, number):
    return checkpoint(lambda y: (y * number).sin(), x, use_reentrant=False)


def checkpointed_argument(x, number):
    return checkpoint(lambda y, n: ((y * n).sin(), n), x, number, use_reentrant=False)[0] * number


def nested(x, number):
    def inner(y):
        return (y - number).exp() * number

    return checkpoint(
        lambda y: checkpoint(inner, y.tanh(), use_reentrant=False) / (number + 9),
        x,
        use_reentrant=False,
    )


def condition(x, number):
    return torch.cond(x.sum() > 0, lambda y: y * number, lambda y: y.cos() - number, (x,))


def hook(x, number):
    y = x * 2
    y.register_hook(lambda gradient: gradient * number)
    return y.sin()


PARTS = [checkpointed, checkpointed_argument, nested, hook]


def run(part, numbers, **settings):
    """Compare calls with several numbers; return what was counted."""
    with stages.collect() as log:
        fast = minitorch2.compile(part, **settings)
        for rows, number in zip((3, 3, 4, 5), numbers, strict=True):
            x = torch.randn(rows, 2)
            given, wanted = (x.clone().requires_grad_() for _ in range(2))
            results = fast(given, number), part(wanted, number)
            for result in results:
                result.sum().backward()
            assert_same((results[0], given.grad), (results[1], wanted.grad), 1e-5)
    assert log.counts["backend_failures"] == 0
    return log.counts


@pytest.mark.parametrize("numbers", [(0.5, 0.75, -1.5, 2.5), (2, 3, 5, 7)], ids=["float", "int"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "numba"])
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_are_inputs_of_the_part(part, backend, dynamic, numbers):
    """No call breaks the graph: the number, or its symbol, is an input of the node."""
    counts = run(part, numbers, backend=backend, dynamic=dynamic, fullgraph=True)
    assert counts["graph_breaks"] == counts["frames_as_is"] == 0
    assert counts["graphs"] <= 3


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_are_read_in_a_graph_with_branches(backend):
    """The graphs of branches take tensors alone: one of them holds the number."""
    assert run(condition, (0.5, 0.75, -1.5, 2.5), backend=backend)["graph_breaks"] == 0
