"""Compiling beside the program, and calls that must not be compiled again."""

import subprocess
import sys
import threading
import time

import pytest
import torch

import minitorch2
from minitorch2 import config, stages
from minitorch2.bytecode.dispatch import background
from minitorch2.errors import ConfigError, GraphBreakError, RecompileError
from minitorch2.testing import assert_same

X = torch.tensor([1.0, -2.0, 3.0])


class Held:
    """A backend that compiles when it is let go on, and notes its thread."""

    def __init__(self):
        self.go = threading.Event()
        self.threads = []

    def __call__(self, graph, inputs):
        self.threads.append(threading.current_thread())
        assert self.go.wait(60)
        return graph


def marked(x):
    return x.sin() + (10 if minitorch2.is_compiling() else 0)


def test_calls_run_in_python_until_the_entry_is_ready():
    held = Held()
    compiled = minitorch2.compile(marked, backend=held, wait=False, fullgraph=True)
    for _ in range(3):
        assert_same(compiled(X), X.sin())
    assert not minitorch2.finish_compiling(timeout=0)
    held.go.set()
    assert minitorch2.finish_compiling(timeout=60)
    assert_same(compiled(X), X.sin() + 10)
    assert len(held.threads) == 1 and held.threads[0] is not threading.current_thread()


def test_the_call_that_starts_the_thread_runs_in_python_however_fast_it_is(monkeypatch):
    submit = background.submit

    def submitted(work):
        future = submit(work)
        future.exception(60)  # waits until it has compiled
        return future

    monkeypatch.setattr(background, "submit", submitted)
    compiled = minitorch2.compile(marked, backend="eager", wait=False, fullgraph=True)
    assert_same(compiled(X), X.sin())
    assert_same(compiled(X), X.sin() + 10)


def test_another_call_of_the_same_code_waits_for_its_turn():
    compiled = minitorch2.compile(marked, backend="eager", wait=False, dynamic=False)
    for size in (3, 4):
        x = torch.ones(size)
        assert_same(compiled(x), x.sin())
        minitorch2.finish_compiling()
        assert_same(compiled(x), x.sin() + 10)
    assert_same(compiled(X), X.sin() + 10)


def test_the_backward_graph_is_ready_as_well():
    x = X.clone().requires_grad_()
    compiled = minitorch2.compile(lambda x: (x.sin() * x).sum(), wait=False, fullgraph=True)
    wanted = torch.autograd.grad((x.sin() * x).sum(), x)
    with stages.collect() as log:
        assert_same(torch.autograd.grad(compiled(x), x), wanted)
        minitorch2.finish_compiling()
    assert len(log.texts("wrapper.py")) == 2
    with stages.collect() as later:
        torch.testing.assert_close(torch.autograd.grad(compiled(x), x), wanted)
    assert not later.stages


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_the_thread_has_the_state_of_the_call(grad, autocast):
    def product(x):
        y = x @ x
        return y if torch.is_grad_enabled() else y + 1

    x = torch.rand(3, 3, requires_grad=True)
    compiled = minitorch2.compile(product, backend="eager", wait=False, fullgraph=True)
    with (
        torch.set_grad_enabled(grad),
        torch.autocast("cpu", torch.bfloat16, enabled=autocast),
        stages.collect(texts=False) as log,
    ):
        wanted = product(x)
        for _ in range(3):
            assert_same(compiled(x).detach(), wanted.detach())
            minitorch2.finish_compiling()
    assert log.counts["graphs"] == 1, "the guards hold for the call"


def test_under_modes_the_programs_own_thread_compiles():
    held = Held()
    held.go.set()
    compiled = minitorch2.compile(marked, backend=held, wait=False)
    with torch.inference_mode():
        assert_same(compiled(X).clone(), X.sin() + 10)
    assert held.threads == [threading.current_thread()]


def test_a_graph_break_is_raised_at_the_next_call():
    def breaks(x):
        minitorch2.graph_break()
        return x.sin()

    compiled = minitorch2.compile(breaks, backend="eager", wait=False, fullgraph=True)
    assert_same(compiled(X), X.sin())
    minitorch2.finish_compiling()
    with pytest.raises(GraphBreakError):
        compiled(X)


def test_the_programs_own_exceptions_are_its_own():
    def fails(x):
        return x.sin() + [][0]

    compiled = minitorch2.compile(fails, backend="eager", wait=False, fullgraph=True)
    for _ in range(2):
        with pytest.raises(IndexError):
            compiled(X)
        minitorch2.finish_compiling()


def test_what_a_changing_program_makes_impossible_is_tried_again(monkeypatch):
    tried = []
    module = "minitorch2.bytecode.dispatch.region"
    compile_frame = sys.modules[module].compile_frame

    def disturbed(frame, compiler):
        tried.append(threading.current_thread())
        if len(tried) == 1:
            raise RuntimeError("dictionary changed size during iteration")
        return compile_frame(frame, compiler)

    monkeypatch.setattr(f"{module}.compile_frame", disturbed)
    compiled = minitorch2.compile(marked, backend="eager", wait=False)
    assert_same(compiled(X), X.sin())
    minitorch2.finish_compiling()
    assert_same(compiled(X), X.sin() + 10)
    assert tried[0] is not tried[1] is threading.current_thread()


def test_breaks_and_what_is_called_there():
    def inner(x):
        return x.cos()

    def outer(x):
        y = inner(x)
        minitorch2.graph_break()
        return inner(y) * 2

    compiled = minitorch2.compile(outer, backend="eager", wait=False)
    for _ in range(6):
        assert_same(compiled(X), X.cos().cos() * 2)
        minitorch2.finish_compiling()
    with stages.collect(texts=False) as log:
        compiled(X)
    assert log.counts["graphs"] == 0


def test_a_model_in_training_while_it_is_compiled():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    twin = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    twin.load_state_dict(model.state_dict())
    compiled = minitorch2.compile(model, wait=False, fullgraph=True)
    data = torch.randn(30, 5, 4)
    for number, batch in enumerate(data):
        if number == 20:
            minitorch2.finish_compiling()
        for each, called in ((model, compiled), (twin, twin)):
            loss = called(batch).square().mean()
            loss.backward()
            with torch.no_grad():
                for parameter in each.parameters():
                    parameter -= 0.1 * parameter.grad
                    parameter.grad = None
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_many_threads_call_while_one_compiles():
    compiled = minitorch2.compile(marked, wait=False, dynamic=False)
    results, errors = [], []

    def work(size):
        try:
            x = torch.ones(size)
            for _ in range(50):
                results.append(float((compiled(x) - x.sin()).sum() / size))
                time.sleep(0.001)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(size,)) for size in (2, 3, 4, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    minitorch2.finish_compiling()
    assert not errors and {round(result) for result in results} <= {0, 10}
    assert len(results) == 250


def test_a_forked_process_compiles_in_a_thread_of_its_own():
    code = """
import os, torch, minitorch2
compiled = minitorch2.compile(lambda x: x.sin() + minitorch2.is_compiling(), backend="eager",
                              wait=False)
x = torch.ones(3)
compiled(x); minitorch2.finish_compiling()
if child := os.fork():
    raise SystemExit(os.waitpid(child, 0)[1])
y = torch.ones(3, dtype=torch.float64)
compiled(y); assert minitorch2.finish_compiling(60)
assert torch.equal(compiled(y), y.sin() + 1)
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_explanation_waits_and_so_does_a_reset_function():
    with config.patch(wait=False):
        assert minitorch2.explain(marked, backend="eager")(X).graph_count == 1
        compiled = minitorch2.compile(marked, backend="eager")
    assert_same(compiled(X), X.sin())
    minitorch2.finish_compiling()
    minitorch2.reset()
    assert_same(compiled(X), X.sin())
    minitorch2.finish_compiling()
    assert_same(compiled(X), X.sin() + 10)


# No second compilation ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "told", [{"fail_on_recompile": True}, {"options": {"fail_on_recompile": True}}]
)
@pytest.mark.parametrize("wait", [True, False])
def test_a_second_compilation_can_be_an_error(told, wait):
    compiled = minitorch2.compile(marked, backend="eager", wait=wait, **told)
    for _ in range(2):
        compiled(X)
        minitorch2.finish_compiling()
    with pytest.raises(RecompileError, match=r"dtype was .*32, now .*64") as caught:
        compiled(X.double())
    assert "dynamic=True" in caught.value.fix
    assert_same(compiled(X), X.sin() + 10)


def test_sizes_may_vary_where_they_are_symbols():
    compiled = minitorch2.compile(marked, backend="eager", dynamic=True, fail_on_recompile=True)
    for size in (3, 4, 5):
        compiled(torch.ones(size))


def test_what_is_told_is_checked():
    with pytest.raises(ConfigError, match="wait takes bool"):
        minitorch2.compile(marked, wait=0)
    with pytest.raises(ConfigError, match="fail_on_recompile takes bool"):
        minitorch2.compile(marked, fail_on_recompile="yes")
