"""What earlier captures of PyTorch programs get wrong or refuse, and what ours does.

PyTorch 2 paper, sections 2.1 to 2.6. Each test shows a failure of another tool, on purpose, next to
the same program captured here.
"""

import io
import random
import sys

import pytest
import torch
from torch._lazy import ts_backend
from torch.fx.experimental.proxy_tensor import make_fx

import minitorch2
from minitorch2 import stages

pytestmark = pytest.mark.filterwarnings("ignore")


def captured(function, **settings):
    return minitorch2.compile(function, backend="eager", **settings)


# jit.trace records one run: what the program did not do then is lost (section 2.1) ---------------


def branching(x):
    if len(torch.nonzero(x)) > 1:
        return x + 1
    return x - 1


def test_a_trace_takes_one_branch_for_good():
    few, many = torch.tensor([0, 0]), torch.tensor([1, 1])
    traced = torch.jit.trace(branching, (few,))
    assert not torch.equal(traced(many), branching(many))
    ours = captured(branching)
    assert torch.equal(ours(few), branching(few))
    assert torch.equal(ours(many), branching(many))


def test_a_trace_keeps_numbers_of_its_example():
    def last_row(x):
        return x[x.shape[0] - 1] * len(x)

    traced = torch.jit.trace(lambda x: last_row(x) + float(x.sum()), (torch.ones(2, 2),))
    x = torch.arange(6.0).reshape(3, 2)
    assert not torch.equal(traced(x), last_row(x) + float(x.sum()))
    assert torch.equal(captured(lambda x: last_row(x) + float(x.sum()))(x), last_row(x) + 15.0)


class Branching(torch.nn.Module):
    def forward(self, x):
        return branching(x)


def test_a_file_of_onnx_holds_what_its_capture_has_seen():
    pytest.importorskip("onnx")
    file = io.BytesIO()
    torch.onnx.export(Branching(), (torch.tensor([1, 1]),), file, dynamo=False)
    assert b"Add" in file.getvalue()
    assert b"Sub" not in file.getvalue() and b"If" not in file.getvalue()


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.call_count = 0

    def forward(self, x):
        self.call_count += 1
        return torch.rand(10) + x + self.call_count


def test_a_trace_loses_side_effects():
    traced, model, x = (
        torch.jit.trace(Counting(), (torch.zeros(10),), check_trace=False),
        Counting(),
        torch.zeros(10),
    )
    assert int(traced(x).max()) == int(traced(x).max()), "the count is a constant of the trace"
    ours = captured(model)
    results = []
    with stages.collect() as log:
        for count in (1, 2, 3, 4):
            results.append(ours(x))
            assert model.call_count == count
            assert count <= float(results[-1].min()) < count + 1
    fractions = [result - result.floor() for result in results]
    assert not torch.equal(fractions[0], fractions[1]), "each call draws its own numbers"
    assert all("torch.rand" in text for text in log.texts("captured_graph"))


# jit.script compiles a part of Python (section 2.2) ----------------------------------------------


def with_kwargs(x, **named):
    return x + sum(named.values())


def joined(x):
    parts = {"a": x, 1: x + 1}
    return sum(parts.values())


def printing(x):
    text = f"{x.shape[0]!r:>4}"
    return x + len(text)


@pytest.mark.parametrize("program", [with_kwargs, joined, printing])
def test_a_script_refuses_python_that_is_captured_here(program):
    with pytest.raises(Exception, match=r".+"):
        torch.jit.script(program)
    named = {"a": 1, "b": 2} if program is with_kwargs else {}
    x = torch.ones(3)
    with stages.collect() as log:
        assert torch.equal(captured(program, fullgraph=True)(x, **named), program(x, **named))
    assert log.counts["graphs"] == 1


# torch.fx.symbolic_trace runs the program on proxies (section 2.5) -------------------------------


def positive(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def test_symbolic_tracing_refuses_control_flow_on_data():
    with pytest.raises(torch.fx.proxy.TraceError):
        torch.fx.symbolic_trace(positive)
    ours = captured(positive)
    for x in (torch.ones(2), -torch.ones(2)):
        assert torch.equal(ours(x), positive(x))


def noisy(x):
    return x + torch.rand(3)


def test_symbolic_tracing_freezes_random_numbers():
    traced, zeros = torch.fx.symbolic_trace(noisy), torch.zeros(3)
    assert torch.equal(traced(zeros), traced(zeros))
    ours = captured(noisy)
    assert not torch.equal(ours(zeros), ours(zeros))


CALLS = 0


def counted(x):
    global CALLS
    CALLS += 1
    return x * 2


def test_symbolic_tracing_loses_side_effects():
    global CALLS
    traced, ours, x = torch.fx.symbolic_trace(counted), captured(counted), torch.ones(1)
    CALLS = 0
    traced(x), traced(x)
    assert CALLS == 0
    ours(x), ours(x)
    assert CALLS == 2


# make_fx records one run below autograd, as traces on abstract values do (section 2.5) ------------


def scaled_at_random(x):
    return x * random.random()


def test_a_record_of_operators_keeps_numbers_of_python():
    x = torch.ones(3)
    recorded, ours = make_fx(scaled_at_random)(x), captured(scaled_at_random)
    assert torch.equal(recorded(x), recorded(x))
    assert not torch.equal(ours(x), ours(x))


# Lazy tensors run the program at every call (section 2.3) -----------------------------------------


def layered(x):
    for _ in range(4):
        x = torch.sin(x) + 1
    return x


def python_runs(function, *inputs):
    """How often the body of `layered` runs in Python."""
    runs = 0

    def count(frame, event, _):
        nonlocal runs
        runs += event == "call" and frame.f_code is layered.__code__

    previous = sys.getprofile()
    sys.setprofile(count)
    try:
        function(*inputs)
    finally:
        sys.setprofile(previous)
    return runs


def test_lazy_tensors_run_python_at_each_call():
    ts_backend.init()
    x, lazy, ours = torch.ones(3), torch.ones(3, device="lazy"), captured(layered)
    torch.testing.assert_close(layered(lazy).cpu(), ours(x))
    assert [python_runs(layered, lazy) for _ in range(3)] == [1, 1, 1]
    assert [python_runs(ours, x) for _ in range(3)] == [0, 0, 0]
