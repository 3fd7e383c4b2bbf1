"""Stances: what compiled functions do when they are called, for the whole process."""

import threading

import pytest
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.errors import BackendError, ConfigError, RecompileError
from minitorch2.foundation.generated_code import DISPATCHER

X = torch.tensor([1.0, -2.0, 3.0])
Y = torch.tensor([1.0, -2.0])


def f(x):
    return x + (10 if minitorch2.is_compiling() else 0)


def compiled_f(**settings):
    settings = {"backend": "eager", "dynamic": False, **settings}
    return minitorch2.compile(f, **settings)


def frames(function, *calls):
    """How many frames were compiled for these calls."""
    with stages.collect() as log:
        for x in calls:
            function(x)
    return log.counts["frames"]


@pytest.fixture(autouse=True)
def default_stance():
    yield
    minitorch2.set_stance("default")


def test_force_eager_as_block_function_and_decorator():
    call = compiled_f()
    assert torch.equal(call(X), X + 10)
    with minitorch2.set_stance("force_eager"):
        assert torch.equal(call(X), X)
        assert torch.equal(compiled_f()(X), X)  # also what is compiled meanwhile
    assert torch.equal(call(X), X + 10)

    @minitorch2.set_stance("force_eager")
    def run(x):
        """Doc."""
        return call(x)

    assert torch.equal(call(X), X + 10)  # decorating has set nothing
    assert torch.equal(run(X), X)
    assert (run.__name__, run.__doc__) == ("run", "Doc.")
    minitorch2.set_stance("force_eager")
    assert torch.equal(call(X), X)
    minitorch2.set_stance()
    assert torch.equal(call(X), X + 10)


def test_a_stance_does_not_forget_entries():
    call = compiled_f()
    assert frames(call, X) == 1
    with minitorch2.set_stance("force_eager"):
        assert frames(call, X, Y) == 0
    assert frames(call, X) == 0


def test_eager_on_recompile_uses_what_there_is():
    call = compiled_f()
    with minitorch2.set_stance("eager_on_recompile"):
        assert torch.equal(call(X), X)
    call(X)
    with minitorch2.set_stance("eager_on_recompile"):
        assert torch.equal(call(X), X + 10)
        assert torch.equal(call(Y), Y)
    assert torch.equal(call(Y), Y + 10)


def test_fail_on_recompile_names_guard_and_function():
    call = compiled_f(name="my model")
    with minitorch2.set_stance("fail_on_recompile"), pytest.raises(RecompileError):
        call(X)
    call(X)
    with minitorch2.set_stance("fail_on_recompile"):
        assert torch.equal(call(X), X + 10)
        with pytest.raises(RecompileError, match="my model: f needs to be compiled") as error:
            call(Y)
    text = str(error.value)
    assert "def f(x):" in text and "TENSOR_MATCH x" in text and "Fix: " in text
    assert torch.equal(call(Y), Y + 10)


def test_eager_then_compile():
    call = compiled_f()
    with minitorch2.set_stance("eager_then_compile"):
        assert torch.equal(call(X), X)
        assert torch.equal(call(X), X + 10)
        assert frames(call, X, Y) == 1


def test_aot_eager_then_compile():
    backends = []

    def backend(graph, inputs):
        backends.append("own")
        return graph

    call = compiled_f(backend=backend)
    with minitorch2.set_stance("aot_eager_then_compile"):
        x = X.clone().requires_grad_()
        result = call(x)
        assert torch.equal(result, X + 10) and not backends
        assert "CompiledFunction" in type(result.grad_fn).__name__
        result.sum().backward()
        assert torch.equal(x.grad, torch.ones(3))
        call(x)
    assert backends == ["own"]


def test_stances_reach_behind_graph_breaks():
    def breaking(x):
        x = f(x)
        print(end="")
        return f(x)

    call = minitorch2.compile(breaking, backend="eager", dynamic=False)
    assert torch.equal(call(X), X + 20)
    for stance in ("force_eager", "eager_on_recompile"):
        with minitorch2.set_stance(stance):
            assert torch.equal(call(Y), Y)
    with minitorch2.set_stance("eager_on_recompile"):
        assert torch.equal(call(X), X + 20)
    with minitorch2.set_stance("eager_then_compile"):
        again = minitorch2.compile(breaking, backend="eager")
        assert torch.equal(again(X), X)
        assert torch.equal(again(X), X + 10)  # the continuation's first call
        assert torch.equal(again(X), X + 20)


def test_force_backend_compiles_anew_and_leaves_the_other_entries():
    seen = []

    def forced(graph, inputs):
        seen.append(len(inputs))
        return graph

    call = compiled_f()
    assert frames(call, X) == 1
    with minitorch2.set_stance("default", force_backend=forced):
        assert frames(call, X, X) == 1
    assert seen == [1]
    assert frames(call, X) == 0
    with minitorch2.set_stance("default", force_backend=forced):
        assert frames(call, X) == 0
    assert seen == [1]


def test_only_differing_guards_are_checked_on_request():
    def g(x, flag):
        return x + 1 if flag else x - 1

    call = minitorch2.compile(g, backend="eager", dynamic=False)
    call(X, True)
    with minitorch2.set_stance("default", skip_guard_eval_unsafe=True):
        with stages.collect() as log:
            assert torch.equal(call(Y, True), Y + 1)  # one entry: nothing differs
            assert torch.equal(call(Y, False), Y + 1)  # unsafe, as promised
        assert log.counts["frames"] == 0
    call(X, False)
    with minitorch2.set_stance("default", skip_guard_eval_unsafe=True):
        assert torch.equal(call(Y, True), Y + 1)
        assert torch.equal(call(Y, False), Y - 1)
    assert frames(lambda x: call(x, True), Y) == 1


def test_wrong_stances():
    with pytest.raises(ConfigError, match="did you mean 'force_eager'"):
        minitorch2.set_stance("force_eagr")
    with pytest.raises(ConfigError, match="goes with the stance 'default'"):
        minitorch2.set_stance("force_eager", force_backend="eager")
    with pytest.raises(BackendError):
        minitorch2.set_stance("default", force_backend="no such")
    assert torch.equal(compiled_f()(X), X + 10)


def test_a_stance_holds_on_all_threads():
    call, results = compiled_f(), []
    call(X)
    with minitorch2.set_stance("force_eager"):
        thread = threading.Thread(target=lambda: results.append(call(X)))
        thread.start()
        thread.join()
    assert torch.equal(results[0], X)


def test_a_stance_inside_compiled_code_holds_from_there_on():
    inner = compiled_f()
    inner(X)

    def g(x):
        x = x * 2
        with minitorch2.set_stance("force_eager"):
            y = f(x)
        return y * 2

    call = minitorch2.compile(g, backend="eager")
    for _ in range(3):
        assert torch.equal(call(X), X * 4)
        assert torch.equal(inner(X), X + 10)


def test_the_default_stance_costs_a_call_nothing():
    """It is what the list of entries shows: a dispatching function knows no stance."""
    call = compiled_f()
    call(X)
    dispatcher = call.__globals__[DISPATCHER]
    before = list(dispatcher.entries)
    with minitorch2.set_stance("force_eager"):
        assert len(dispatcher.entries) == 1
        assert dispatcher.entries != before
    assert [run.__name__ for _, run in dispatcher.entries] == ["f"]
    assert not [name for name in call.__code__.co_names if "stance" in name]
