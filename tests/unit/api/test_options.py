"""What `compile` is told: by keywords, by options, by the names that `torch.compile` uses."""

import pytest
import torch

import minitorch2
from minitorch2 import config, guard_filters, stages
from minitorch2.api.compile_options import MODES, TORCH_OPTIONS, options_of
from minitorch2.errors import BackendError, ConfigError, GraphBreakError, MinitorchWarning

X = torch.tensor([1.0, -2.0, 3.0])


def breaking(x):
    y = x + 1
    print(end="")
    return y * 2


# Options that are keywords as well ----------------------------------------------------------------


def test_fullgraph_may_be_an_option():
    compiled = minitorch2.compile(breaking, backend="eager", options={"fullgraph": True})
    with pytest.raises(GraphBreakError):
        compiled(X)
    allowed = minitorch2.compile(breaking, backend="eager", options={"fullgraph": False})
    assert torch.equal(allowed(X), breaking(X))


def test_disable_may_be_an_option():
    assert minitorch2.compile(breaking, options={"disable": True}) is breaking
    decorator = minitorch2.compile(options={"disable": True})
    assert decorator(breaking) is breaking


@pytest.mark.parametrize(("dynamic", "graphs"), [(None, 2), (True, 1), (False, 3)])
def test_dynamic_may_be_an_option(dynamic, graphs):
    for told in ({"options": {"dynamic": dynamic}}, {"dynamic": dynamic}):
        compiled = minitorch2.compile(lambda x: x.sin() + 1, backend="eager", **told)
        with stages.collect() as log:
            for size in (3, 4, 5):
                x = torch.ones(size)
                assert torch.equal(compiled(x), x.sin() + 1)
        assert log.counts["graphs"] == graphs


def test_suppress_errors_may_be_an_option(monkeypatch):
    def failing(*args):
        raise ZeroDivisionError("inside")

    monkeypatch.setattr("minitorch2.bytecode.dispatch.region.compile_frame", failing)
    quiet = minitorch2.compile(breaking, backend="eager", options={"suppress_errors": True})
    with config.patch(suppress_errors=False):
        assert torch.equal(quiet(X), breaking(X))
    loud = minitorch2.compile(breaking, backend="eager", options={"suppress_errors": False})
    with pytest.raises(ZeroDivisionError):
        loud(X)


def test_a_keyword_counts_more_than_an_option_and_an_option_more_than_the_process():
    told, _ = options_of(None, {"dynamic": True, "recompile_limit": 3})
    assert (told["dynamic"], told["recompile_limit"]) == (True, 3)
    told, _ = options_of(None, {"dynamic": True, "recompile_limit": 3}, dynamic=False)
    assert (told["dynamic"], told["recompile_limit"]) == (False, 3)
    told, _ = options_of(None, {"fullgraph": False}, fullgraph=True, recompile_limit=2)
    assert (told["fullgraph"], told["recompile_limit"]) == (True, 2)
    with config.patch(fullgraph=True, dynamic=True):
        told, _ = options_of(None, {"fullgraph": False})
        assert (told["fullgraph"], told["dynamic"]) == (False, True)


# Errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mode": 1}, "mode takes a name, not 1"),
        ({"options": ["fullgraph"]}, "options takes a dict"),
        ({"options": {1: 2}}, "options takes a dict of options by name"),
        ({"recompile_limit": 0}, "1 or more, not 0"),
        ({"options": {"recompile_limit": -3}}, "1 or more, not -3"),
        ({"options": {"memory_budget": 5}}, "0 to 1, not 5"),
        ({"options": {"threads": -1}}, "0 or more, not -1"),
        ({"options": {"max_fusion_size": -2}}, "1 or more, not -2"),
        ({"options": {"cache_megabytes": -5}}, "0 or more, not -5"),
        ({"options": {"guard_filter_fn": 3}}, "takes a function"),
        ({"options": {"force_disable_caches": "yes"}}, "takes bool, not 'yes'"),
        ({"options": {"triton.cudagraphs": 3}}, "cudagraphs takes bool, not 3"),
        ({"fullgraph": "yes"}, "fullgraph takes bool"),
        ({"dynamic": "yes"}, "dynamic takes bool"),
        ({"disable": "no"}, "disable takes bool"),
    ],
)
def test_what_cannot_be_told_is_an_error_that_says_how(settings, words):
    with pytest.raises(ConfigError, match=words) as caught:
        minitorch2.compile(breaking, **settings)
    assert caught.value.fix


def test_backends_of_torch_compile_that_are_none_here_say_what_to_use():
    with pytest.raises(BackendError, match=r"torch\.compile's own compiler") as caught:
        minitorch2.compile(breaking, backend="inductor")
    assert "'numba'" in caught.value.fix and "'triton'" in caught.value.fix
    with pytest.raises(BackendError, match="a name or a callable, not 1"):
        minitorch2.compile(breaking, backend=1)


# The names of torch.compile -----------------------------------------------------------------------

MEANINGS = {
    "triton.cudagraphs": (True, "cudagraphs", True),
    "max_autotune_gemm": (True, "max_autotune", True),
    "emulate_precision_casts": (True, "emulate_eager", True),
    "activation_memory_budget": (0.5, "memory_budget", 0.5),
    "size_asserts": (True, "assert_layouts", True),
    "nan_asserts": (True, "assert_no_nan", True),
    "fx_graph_cache": (False, "cache", False),
    "force_disable_caches": (True, "cache", False),
    "trace.enabled": (True, "stages_dir", "minitorch2_stages"),
    "cpp.threads": (-1, "threads", 0),
    "cache_size_limit": (5, "recompile_limit", 5),
    "accumulated_cache_size_limit": (50, "accumulated_recompile_limit", 50),
    "error_on_recompile": (True, "fail_on_recompile", True),
    "use_duck_shape": (False, "duck_shapes", False),
    "max_autotune": (True, "max_autotune", True),
    "freezing": (True, "freezing", True),
    "fallback_random": (False, "fallback_random", False),
    "max_fusion_size": (7, "max_fusion_size", 7),
    "realize_reads_threshold": (7, "realize_reads_threshold", 7),
    "unroll_reductions_threshold": (7, "unroll_reductions_threshold", 7),
}
HINTS = {name: meant for name, meant in TORCH_OPTIONS.items() if not meant.name}


@pytest.mark.parametrize("name", MEANINGS)
def test_options_of_torch_compile_mean_what_they_mean_there(name):
    given, ours, value = MEANINGS[name]
    told, _ = options_of(None, {name: given})
    assert told[ours] == value


def test_threads_keep_their_number_and_their_type():
    assert options_of(None, {"cpp.threads": 3})[0]["threads"] == 3
    with pytest.raises(ConfigError, match=r"option cpp\.threads takes int, not True"):
        options_of(None, {"cpp.threads": True})


def test_each_name_is_one_of_torch_compile_and_is_tried_here():
    elsewhere = {"activation_memory_budget", "force_disable_caches", "use_duck_shape"}
    theirs = {*torch._inductor.list_options()} | elsewhere
    assert all(name in theirs or hasattr(torch._dynamo.config, name) for name in TORCH_OPTIONS)
    assert {name for name, meant in TORCH_OPTIONS.items() if meant.name} <= set(MEANINGS)


@pytest.mark.parametrize("name", HINTS)
def test_hints_without_counterpart_say_so(name, recwarn):
    always = HINTS[name].always
    for value in (True, False):
        told, _ = options_of(None, {name: value})
        assert name not in told
    messages = [str(warning.message) for warning in recwarn]
    assert len(messages) == (2 if always is None else 1)
    assert all("no effect" in message and name in message for message in messages)
    assert all(f"={always!r}" not in message for message in messages)


def test_a_filter_of_guards_goes_beside_options_of_both_names():
    compiled = minitorch2.compile(
        lambda x: x.sin(),
        backend="eager",
        options={"guard_filter_fn": guard_filters.skip_all_guards, "force_disable_caches": True},
    )
    assert torch.equal(compiled(X), X.sin())


def test_modes_are_options_that_exist():
    for mode in MODES:
        told, _ = options_of(mode, None)
        with config.patch(**told):
            assert told and all(getattr(config.current(), o) == told[o] for o in told)


# Where stages go ----------------------------------------------------------------------------------


def test_trace_enabled_writes_the_stages_of_forward_and_backward(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = X.clone().requires_grad_()
    compiled = minitorch2.compile(lambda x: x.sin().sum(), options={"trace.enabled": True})
    compiled(x).backward()
    (folder,) = (tmp_path / "minitorch2_stages").iterdir()
    names = [path.name.partition("_")[2] for path in sorted(folder.iterdir())]
    assert names[0] == "source.py" and names.count("wrapper.py") == 2, names
    assert {"captured_graph.py", "guards.py", "joint_graph.py", "kernel.py"} <= set(names)
    torch.testing.assert_close(x.grad, X.cos())


def test_a_mode_for_gpus_with_an_unknown_option_is_still_an_error():
    with pytest.raises(ConfigError, match="exclude each other"):
        minitorch2.compile(breaking, mode="max-autotune", options={"epilogue_fusion": True})
    with pytest.raises(ConfigError, match="did you mean 'cudagraphs'"):
        minitorch2.compile(breaking, options={"cudagraph": True})
    with pytest.warns(MinitorchWarning, match="shape_padding=True has no effect"):
        minitorch2.compile(breaking, options={"shape_padding": True})
