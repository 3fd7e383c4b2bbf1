"""Limits of recompilation, default backends, options as data, and who sees which options."""

import os
import subprocess
import sys
import threading

import pytest
import torch

import minitorch2
from minitorch2 import config, stages
from minitorch2.autograd.aot import aot_autograd
from minitorch2.errors import BackendError, ConfigError, GraphBreakError, MinitorchWarning

X = torch.tensor([1.0, -2.0, 3.0])


def pick(x, items):
    """Each other number needs an entry of its own."""
    return x.sin() + items[0]


def frames(function, *calls):
    with stages.collect() as log:
        for args in calls:
            function(*args)
    return log.counts["frames"]


def calls_with(*numbers):
    return [(X, [number]) for number in numbers]


@pytest.mark.parametrize("settings", [{"recompile_limit": 2}, {"options": {"recompile_limit": 2}}])
def test_each_call_of_compile_has_its_own_limit(settings):
    """The option used to be read where no call of compile is known: it had no effect."""
    call = minitorch2.compile(pick, backend="eager", **settings)
    with pytest.warns(MinitorchWarning, match="compiled 2 times"):
        assert frames(call, *calls_with(1j, 2j, 3j, 4j)) == 2
    assert frames(minitorch2.compile(pick, backend="eager"), *calls_with(1j, 2j, 3j)) == 3


def test_the_warning_says_once_what_it_costs_and_what_to_do():
    call = minitorch2.compile(pick, backend="eager", recompile_limit=2, name="picker")
    with pytest.warns(MinitorchWarning) as found:
        for number in (1j, 2j, 3j, 4j):
            assert torch.equal(call(X, [number]), pick(X, [number]))
    (warning,) = found
    text = str(warning.message)
    assert "picker: pick was compiled 2 times" in text and "items[0]" in text
    assert "2 operators one by one" in text and "2 guards" in text
    assert "raise recompile_limit" in text
    assert warning.filename == __file__
    assert frames(call, *calls_with(1j, 2j)) == 0  # the versions that there are stay in use


def test_the_limit_is_an_error_with_fullgraph():
    call = minitorch2.compile(pick, backend="eager", fullgraph=True, recompile_limit=1)
    call(X, [1j])
    for _ in range(2):
        with pytest.raises(GraphBreakError, match="compiled 1 times") as error:
            call(X, [2j])
    assert error.value.code == "recompile-limit"
    assert "def pick" in str(error.value) and "Fix: " in str(error.value)


def test_all_functions_of_one_compile_share_the_accumulated_limit():
    def first(x, items):
        return x.sin() + items[0]

    def second(x, items):
        return x.cos() + items[0]

    deco = minitorch2.compile(
        backend="eager", options={"recompile_limit": 9, "accumulated_recompile_limit": 3}
    )
    a, b = deco(first), deco(second)
    assert frames(a, *calls_with(1j, 2j, 3j)) == 3  # two of them again
    assert frames(b, *calls_with(1j, 2j)) == 2
    with pytest.warns(MinitorchWarning, match="raise accumulated_recompile_limit"):
        assert frames(b, *calls_with(3j)) == 0
    assert config.Config.accumulated_recompile_limit == 256


@pytest.mark.parametrize("isolated", [True, False])
def test_isolated_recompiles_of_functions_made_from_one_def(isolated):
    deco = minitorch2.compile(backend="eager", recompile_limit=2, isolate_recompiles=isolated)

    def make(number):
        @deco
        def closure(x):
            return x + number

        return closure

    with stages.collect() as log:
        if isolated:
            for number in (1j, 2j, 3j):
                make(number)(X)
        else:
            with pytest.warns(MinitorchWarning, match="compiled 2 times"):
                for number in (1j, 2j, 3j):
                    make(number)(X)
    assert log.counts["frames"] == (3 if isolated else 2)


def test_reset_gives_functions_at_their_limit_another_try():
    call = minitorch2.compile(pick, backend="eager", recompile_limit=1)
    with pytest.warns(MinitorchWarning):
        frames(call, *calls_with(1j, 2j))
    minitorch2.reset()
    assert frames(call, *calls_with(2j)) == 1


# Backends -----------------------------------------------------------------------------------------


def test_default_backend():
    seen = []

    def backend(graph, inputs):
        seen.append(graph)
        return graph

    assert minitorch2.get_default_backend() is None
    try:
        minitorch2.set_default_backend(backend)
        assert minitorch2.get_default_backend() is backend
        minitorch2.compile(lambda x: x + 1)(X)
        minitorch2.compile(lambda x: x + 1, backend="eager")(X)
        assert len(seen) == 1
        with pytest.raises(BackendError, match="did you mean 'eager'"):
            minitorch2.set_default_backend("eagr")
    finally:
        minitorch2.set_default_backend(None)
    with config.patch(backend="aot_eager"):
        assert minitorch2.get_default_backend() == "aot_eager"
    with pytest.raises(BackendError):
        minitorch2.compile(lambda x: x, options={"backend": "no such"})


def test_list_backends_excludes_by_tag():
    assert minitorch2.list_backends() == ["halide", "numba", "triton"]
    assert "eager" in minitorch2.list_backends(exclude_tags=())


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_environment_disables_and_chooses_the_backend():
    code = "import minitorch2; f = lambda x: x; print(minitorch2.compile(f) is f)"
    assert run(code, MINITORCH2_DISABLE="1") == "True"
    code = "import minitorch2; print(minitorch2.get_default_backend())"
    assert run(code, MINITORCH2_BACKEND="eager") == "eager"


# Options ------------------------------------------------------------------------------------------


def test_modes_and_options_are_data():
    modes = minitorch2.list_mode_options()
    assert modes["default"] == {} and modes["max-autotune"] == {
        "max_autotune": True,
        "cudagraphs": True,
    }
    assert minitorch2.list_mode_options("reduce-overhead") == {"cudagraphs": True}
    with pytest.raises(ConfigError, match="did you mean 'default'"):
        minitorch2.list_mode_options("defalt")
    modes["default"]["x"] = 1
    assert minitorch2.list_mode_options("default") == {}
    names = [option.name for option in minitorch2.list_options()]
    assert {"recompile_limit", "accumulated_recompile_limit", "backend"} <= set(names)


def test_the_backward_sees_the_options_of_its_forward_on_another_thread():
    seen = []

    def compiler(graph, inputs):
        seen.append((threading.current_thread().name, config.current().max_fusion_size))
        return lambda arguments: list(graph(*arguments))

    def backend(graph, inputs):
        return aot_autograd(graph, inputs, forward_compiler=compiler, backward_compiler=compiler)

    x = X.clone().requires_grad_()
    result = minitorch2.compile(torch.sin, backend=backend, options={"max_fusion_size": 3})(x)
    thread = threading.Thread(target=result.sum().backward, name="other")
    thread.start()
    thread.join()
    assert seen == [("MainThread", 3), ("other", 3)]
    torch.testing.assert_close(x.grad, X.cos())


def test_patches_are_the_threads_own_and_work_as_decorators():
    seen = []

    @config.patch(recompile_limit=3)
    def limit():
        return config.current().recompile_limit

    with config.patch(recompile_limit=5):
        thread = threading.Thread(target=lambda: seen.append(config.current().recompile_limit))
        thread.start()
        thread.join()
        assert limit() == 3
        assert config.current().recompile_limit == 5
    assert seen == [8]


def test_a_spec_of_shapes_marks_the_arguments_of_calls():
    compilations = []

    def backend(module, inputs):
        compilations.append(module)
        return module

    batch = minitorch2.Dim("batch", max=8)
    spec = {"x": {0: batch}, "y": {-2: batch}}
    f = minitorch2.compile(lambda x, y: x @ y.T, backend=backend, shapes_spec=spec)
    for size in (4, 8, 2, 5):
        x, y = torch.randn(size, 3), torch.randn(size, 3)
        torch.testing.assert_close(f(x, y), x @ y.T)
    assert len(compilations) == 1
    f(torch.randn(9, 3), torch.randn(9, 3))  # more than the limit: compiled apart
    f(torch.randn(1, 3), torch.randn(1, 3))
    assert len(compilations) == 3


def test_a_spec_of_shapes_must_name_parameters_that_are_tensors():
    for spec, cause in (({"z": 0}, "'z', which is no parameter"), ({"k": 0}, "is 3, not a tensor")):
        with pytest.raises(ConfigError, match=cause):
            minitorch2.compile(lambda x, k: x * k, shapes_spec=spec)(torch.randn(2), 3)
    with pytest.raises(ConfigError, match="has no dimension 4"):
        minitorch2.compile(lambda x: x + 1, shapes_spec={"x": 4})(torch.randn(2))
