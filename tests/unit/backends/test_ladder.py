"""The debug ladder: every rung computes and differentiates as eager does."""

import operator

import pytest
import torch
import torch.nn.functional as F

from minitorch2.backends import lookup_backend
from minitorch2.errors import BackendError
from minitorch2.graph import Graph, GraphModule

RUNGS = ["eager", "eager_noexcept", "aot_eager", "aot_eager_decomp_partition", "aot_numpy", "numba"]


def model_graph() -> GraphModule:
    graph = Graph()
    x, w, b = (graph.placeholder(name) for name in ("x", "w", "b"))
    hidden = graph.call_function(F.linear, (x, w, b))
    normal = graph.call_function(F.layer_norm, (hidden, (6,)))
    parts = graph.call_method("split", (normal, 3, 1))
    left, right = (graph.call_function(operator.getitem, (parts, i)) for i in range(2))
    mixed = graph.call_function(operator.mul, (graph.call_function(F.gelu, (left,)), right))
    graph.output((mixed, graph.call_method("sum", (mixed,))))
    return GraphModule(graph)


@pytest.mark.parametrize("name", RUNGS)
def test_every_rung(name: str) -> None:
    inputs = [
        torch.randn(4, 5),
        torch.randn(6, 5, requires_grad=True),
        torch.randn(6, requires_grad=True),
    ]
    module = model_graph()
    expected = module(*inputs)
    run = lookup_backend(name)(module, list(inputs))
    got = run(*inputs)
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    wanted = torch.autograd.grad(expected[0].sin().sum() + expected[1], inputs[1:])
    found = torch.autograd.grad(got[0].sin().sum() + got[1], inputs[1:])
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["aot_eager", "aot_eager_decomp_partition", "aot_numpy"])
def test_batch_norm_statistics_are_written_on_every_rung(name: str) -> None:
    graph = Graph()
    x, m, v = (graph.placeholder(n) for n in "xmv")
    graph.output((graph.call_function(F.batch_norm, (x, m, v), {"training": True}),))
    inputs = [torch.randn(5, 3), torch.zeros(3), torch.ones(3)]
    expected = [t.clone() for t in inputs]
    F.batch_norm(*expected, training=True)
    lookup_backend(name)(GraphModule(graph), list(inputs))(*inputs)
    for a, b in zip(inputs, expected, strict=True):
        torch.testing.assert_close(a, b)


def test_eager_noexcept_marks_the_graph_as_guilty() -> None:
    graph = Graph()
    graph.output((graph.call_function(operator.truediv, (graph.placeholder("x"), 0)),))
    with pytest.raises(BackendError, match="division by zero"):
        lookup_backend("eager_noexcept")(GraphModule(graph), [1])(1)
