"""Compiled functions where somebody looks at each operator, or where tensors have no elements."""

import signal

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import minitorch2
from tests.unit.bytecode.soundness.processes import run


def program(x, w):
    y = (x @ w).relu()
    print(end="")
    return y.sin() + 1


X, W = torch.linspace(-1, 1, 32).view(4, 8), torch.linspace(0, 1, 64).view(8, 8)
called = pytest.mark.parametrize("called", [False, True], ids=["fresh", "called"])


def compiled_program(called, **options):
    compiled = minitorch2.compile(program, **options)
    if called:
        compiled(X, W)
    return compiled


@called
@pytest.mark.filterwarnings("ignore")
def test_torch_jit_traces_the_users_operators(called):
    """Kernels leave nothing in a trace: it crashed, or computed with memory that nobody wrote."""
    traced = torch.jit.trace(compiled_program(called), (X, W))
    assert {"aten::matmul", "aten::relu"} <= {node.kind() for node in traced.graph.nodes()}
    torch.testing.assert_close(traced(X + 1, W), program(X + 1, W))


class Seen(TorchDispatchMode):
    """Notes each operator."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


@called
def test_a_dispatch_mode_sees_the_users_operators_and_no_others(called):
    """It saw those of the compiler, and not those inside of kernels."""
    compiled = compiled_program(called)
    with Seen() as wanted:
        result = program(X, W)
    with Seen() as seen:
        given = compiled(X, W)
    assert torch.equal(given, result)
    assert seen.names == wanted.names


@called
@pytest.mark.parametrize("requires_grad", [False, True])
def test_meta_tensors(called, requires_grad):
    """Kernels were run on the address 0."""
    compiled = compiled_program(called)
    x = X.to("meta").requires_grad_(requires_grad)
    result = compiled(x, W.to("meta"))
    assert (result.device.type, result.shape) == ("meta", (4, 8))
    if requires_grad:
        result.sum().backward()
        assert x.grad.shape == x.shape
    assert torch.allclose(compiled(X, W), program(X, W))


def test_kernels_and_meta_tensors_in_one_graph():
    @minitorch2.compile(fullgraph=True)
    def mixed(x):
        place = torch.empty(5, device="meta")
        place.fill_(1)
        return (x * 2).sin(), place + 1, (place.t().clone() * 3).sum(0)

    y, place, total = mixed(X)
    torch.testing.assert_close(y, (X * 2).sin())
    assert (place.device.type, place.shape, total.shape) == ("meta", (5,), ())


def test_a_default_device_without_elements():
    compiled = minitorch2.compile(lambda x: x * torch.ones(8))
    with torch.device("meta"):
        assert compiled(torch.empty(4, 8)).device.type == "meta"
    assert torch.equal(compiled(X), X)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_compiled_functions_in_signal_handlers_while_others_compile():
    """They were compiled under the compiler's own modes, and ran kernels on the address 0."""
    printed = run("""
        import signal
        compiled, calls = minitorch2.compile(inner), []
        compiled(X)
        def handle(*_):
            try:
                compiled(X)
            except Exception:  # the compiler has taken the operators for those of its program
                pass
            calls.append(1)
            signal.setitimer(signal.ITIMER_REAL, 0.01)
        signal.signal(signal.SIGALRM, handle)
        for number in range(12):
            exec(f"def f(x): return (x * {number}).sin() + x.exp()", globals())
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            try:
                minitorch2.compile(f)(X)
            except minitorch2.errors.MinitorchError:
                pass
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert torch.allclose(compiled(X), inner(X))
        print(len(calls) > 0)
    """)
    assert printed.split() == ["True"]
