"""What a compilation tells while it runs, and what profiles show of what it made."""

import logging
import threading

import pytest
import torch

import minitorch2
from minitorch2 import config, stages
from minitorch2.codegen.program import load_program
from minitorch2.errors import MinitorchWarning
from minitorch2.stages import progress

X = torch.tensor([1.0, -2.0, 3.0])


def lines(caplog):
    found = [record for record in caplog.records if record.name == "minitorch2.stages.progress"]
    return [record.getMessage().rpartition(",")[0] for record in found]


def test_each_compilation_is_one_line_in_the_log(caplog):
    def breaking(x):
        y = x.sin()
        print(end="")
        return y.sum()

    with caplog.at_level(logging.INFO, "minitorch2.stages.progress"):
        compiled = minitorch2.compile(breaking, name="net")
        compiled(X)
        compiled(X)
    first, rest = lines(caplog)
    assert (
        first == "net: test_each_compilation_is_one_line_in_the_log.<locals>.breaking: "
        "1 graph, 1 graph break, 1 kernel"
    )
    assert rest.endswith("1 graph, 1 kernel")


def test_a_backward_graph_has_a_line_of_its_own(caplog):
    x = X.clone().requires_grad_()
    with caplog.at_level(logging.INFO, "minitorch2.stages.progress"):
        minitorch2.compile(lambda x: x.sin().sum(), fullgraph=True)(x).backward()
    assert lines(caplog)[1] == "its backward: 1 kernel"


def test_a_compilation_that_takes_long_says_so_once():
    waiting = threading.Event()

    def slow(graph, inputs):
        waiting.wait(30)
        return graph

    def let_go(*args, **kwargs):
        waiting.set()

    with (
        pytest.MonkeyPatch.context() as patched,
        config.patch(notice_seconds=0.01),
    ):
        patched.setattr(progress.warnings, "warn", lambda *args, **kw: let_go(said.append(args)))
        said: list[tuple[object, ...]] = []
        assert torch.equal(minitorch2.compile(lambda x: x + 1, backend=slow)(X), X + 1)
    ((message, category),) = said
    assert "still compiling" in message and "<lambda>" in message and category is MinitorchWarning


def test_a_compilation_may_say_nothing():
    before = threading.active_count()
    with config.patch(notice_seconds=0.0), progress.reported("f"):
        assert threading.active_count() == before
    with config.patch(notice_seconds=100.0), progress.reported("f"), progress.reported("inner"):
        assert threading.active_count() == before + 1


def names_in(profile):
    return {event.key for event in profile.key_averages()}


def profiled(call):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    return names_in(profile)


def test_a_profile_shows_compiled_functions_and_kernels_by_name():
    def f(x):
        return (x.sin() @ x).sum()

    compiled = minitorch2.compile(f, fullgraph=True, name="net")
    x = torch.rand(4, 4, requires_grad=True)
    with stages.collect() as log:
        compiled(x).backward()
    names = profiled(lambda: compiled(x).backward())
    kernels = {
        line.partition(" = ")[0]
        for text in log.texts("wrapper.py")
        for line in text.splitlines()
        if " = load_kernel(" in line
    }
    assert f"minitorch2: net: {f.__qualname__}" in names
    assert len(kernels) >= 3 and kernels <= names
    x.grad = None
    compiled(x).backward()
    expected = torch.autograd.grad(f(x), x)[0]
    torch.testing.assert_close(x.grad, expected)


def test_a_profile_shows_functions_that_are_called_where_a_graph_breaks():
    def inner(x):
        minitorch2.graph_break()
        return x.cos()

    def outer(x):
        return inner(x) + 1

    compiled = minitorch2.compile(outer, backend="eager")
    compiled(X)
    names = profiled(lambda: compiled(X))
    assert {f"minitorch2: {f.__qualname__}" for f in (inner, outer)} <= names


def test_without_a_profiler_no_range_is_opened(monkeypatch):
    compiled = minitorch2.compile(lambda x: (x.sin() * 2).sum(), fullgraph=True)
    compiled(X)
    monkeypatch.setattr(torch.autograd.profiler, "record_function", None)
    torch.testing.assert_close(compiled(X), (X.sin() * 2).sum())


def test_lines_of_a_program_stay_where_its_file_has_them():
    with stages.collect() as log:
        minitorch2.compile(lambda x: x.sort()[0], fullgraph=True)(X)
    text = log.texts("wrapper.py")[0]
    call = load_program(text)
    first = text.splitlines().index("def call(args):") + 1
    numbers = [line for *_, line in call.__code__.co_lines() if line and line > first]
    assert min(numbers) == first + 1 and max(numbers) <= len(text.splitlines())
    assert call([X])[0].tolist() == sorted(X.tolist())
