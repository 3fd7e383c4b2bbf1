"""A new target is a class and an entry: it compiles graphs of several kernels, and gradients."""

import pytest
import torch

import minitorch2
from minitorch2 import config, stages
from minitorch2.backends import registry
from minitorch2.codegen.compile_graph import GraphCompiler, compile_graph
from minitorch2.errors import LoweringError
from minitorch2.graph.compiled_graph import CompiledGraph
from tests.unit.codegen.aten_graph import record
from tests.unit.codegen.loops_target import LOOPS

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def backend(monkeypatch):
    """The one registration that a target needs."""
    place = f"{LOOPS.__module__}:LOOPS"
    entry = registry.Entry("minitorch2.backends.channels_last:kernels", target=place)
    monkeypatch.setitem(registry.BACKENDS, "loops", entry)
    return "loops"


def normalized(x, w):
    y = torch.softmax(x @ w, -1)
    return torch.tanh(y - y.sum(0)) + y.amax(1, keepdim=True)


def test_a_graph_of_several_kernels_and_a_library_call():
    w = torch.eye(4) * 2
    with stages.collect() as log:
        (result,) = compile_graph(record(normalized, X, w), target=LOOPS)([X, w])
    torch.testing.assert_close(result, normalized(X, w))
    assert log.counts["kernels"] > 2 and len(log.texts("kernel.py")) > 2
    (text,) = log.texts("wrapper.py")
    assert "import load_loops\n" in text and "load_kernel" not in text


def test_equal_kernels_are_defined_once():
    with stages.collect() as log:
        results = compile_graph(record(lambda x, y: (x.exp(), y.exp()), X, X + 1), target=LOOPS)(
            [X, X + 1]
        )
    torch.testing.assert_close(results, [X.exp(), (X + 1).exp()])
    assert len(log.texts("kernel.py")) == 1


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_backend_with_gradients(backend, dynamic):
    fast = minitorch2.compile(
        lambda x: (x.sin() * x.sum()).tanh(), backend=backend, dynamic=dynamic, fullgraph=True
    )
    for rows in (3, 2):
        x = X[:rows].clone().requires_grad_()
        found, wanted = fast(x), (x.sin() * x.sum()).tanh()
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(
            *(torch.autograd.grad(y.sum(), x, retain_graph=True) for y in (found, wanted))
        )
    assert backend in minitorch2.list_backends()


def test_what_a_target_cannot_print_is_an_error_with_the_users_line():
    with pytest.raises(LoweringError, match="no 'index_expr'") as caught:
        compile_graph(record(lambda x: x + torch.arange(4), X), target=LOOPS)
    assert caught.value.user_line is not None


def test_the_compiler_of_a_graph_says_what_it_has_done():
    with config.patch(cache=False):
        compiled = GraphCompiler(LOOPS)(record(lambda x: x + 1, X))
    assert isinstance(compiled, CompiledGraph) and compiled.written == ()
    assert compiled.counts["kernels"] == 1
    assert "def call(args):" in compiled.source()
