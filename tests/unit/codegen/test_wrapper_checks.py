"""Checks that options put into wrappers, and the wrapper's file as a program."""

import re
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

import minitorch2
from minitorch2 import config, stages
from minitorch2.codegen.compile_graph import compile_graph
from minitorch2.codegen.standalone import main_text
from minitorch2.errors import CheckError
from tests.unit.codegen.aten_graph import call_inputs, record

X = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
LAYER = torch.nn.LSTM(8, 8)


def compiled(program, *inputs, dynamic=False, **options):
    gm = record(program, *inputs, dynamic=dynamic)
    with config.patch(**options), stages.collect() as log:
        call = compile_graph(gm)
    return gm, call, log.texts("wrapper.py")[0]


def test_layouts_are_checked_only_if_asked():
    assert "assert_layout" not in compiled(torch.sin, X)[2]
    gm, call, text = compiled(torch.sin, X, assert_layouts=True)
    assert "assert_layout(" in text
    torch.testing.assert_close(call(call_inputs(gm, X))[0], X.sin())
    for wrong in (X[:4], X.t().contiguous().t()):
        with pytest.raises(AssertionError, match="the graph was compiled for"):
            call([wrong])


def test_nan_is_found_at_the_kernel_that_made_it():
    def program(x):
        return torch.mm(x.log(), x.t()).softmax(-1)

    gm, call, text = compiled(program, X.abs(), assert_no_nan=True)
    assert text.count("assert_no_nan(") == 3
    call(call_inputs(gm, X.abs()))
    with pytest.raises(AssertionError, match=r"fused_log_\w+ has stored NaN in \w+"):
        call(call_inputs(gm, -X.abs()))


@pytest.mark.parametrize(
    ("program", "call"),
    [
        (lambda x: x @ x, "aten.mm.default"),
        (lambda x: torch.sort(x.flatten())[0], "aten.sort.default"),
        (lambda x: F.conv1d(x[None], x[:, :, None]), "aten.convolution.default"),
    ],
)
def test_nan_is_found_in_what_the_library_gives(program, call):
    x = torch.ones(8, 8)
    gm, compiled_call, _ = compiled(program, x, assert_no_nan=True)
    compiled_call(call_inputs(gm, x))
    x[0, 0] = torch.nan
    with pytest.raises(AssertionError, match=rf"{call} has stored NaN in buf\d"):
        compiled_call(call_inputs(gm, x))


def test_nan_in_backward_is_raised_to_the_caller():
    x = torch.zeros(3, requires_grad=True)
    result = minitorch2.compile(lambda x: x.sqrt().sum() * 0, options={"assert_no_nan": True})(x)
    with pytest.raises(CheckError, match="has stored NaN"):
        result.backward()
    assert x.grad is None


@pytest.mark.parametrize("program", [lambda x: x @ x, lambda x: x.log() * 2])
def test_a_check_that_fails_is_raised_to_the_caller(program):
    """The user has asked for it: the graph does not run in Python instead."""
    fast = minitorch2.compile(program, options={"assert_no_nan": True})
    fast(torch.ones(3, 3))
    with pytest.raises(CheckError, match="has stored NaN"):
        fast(torch.full((3, 3), torch.nan))


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_file_of_a_wrapper_measures_itself(tmp_path, dynamic):
    with config.patch(cache_dir=str(tmp_path), cache=True):
        compiled(
            lambda x, i: F.gelu(torch.mm(x, x.t()))[i], X, torch.tensor([1, 0]), dynamic=dynamic
        )
    (path,) = (tmp_path / "graphs").iterdir()
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"[\d.]+ us a call \(best [\d.]+ us\)\n", done.stdout)


@pytest.mark.parametrize(
    ("program", "modules"),
    [
        (lambda x: F.dropout(x @ x, 0.5), 1),
        (lambda x: torch.cond(x.sum() > 0, lambda x: x.sin() @ x, lambda x: x.cos(), (x,)), 3),
        (lambda x: (x + torch.eye(8)) @ torch.full((8, 8), 0.5), 1),
        (lambda x: LAYER(x)[0] * 2, 1),
    ],
)
def test_the_text_of_a_wrapper_runs_alone(program, modules, tmp_path):
    """Those of graphs with dropout, torch.cond or a recurrent layer did not."""
    x = torch.rand(8, 8)
    with stages.collect() as log:
        minitorch2.compile(program, fullgraph=True)(x)
    texts = [stage.text + stage.main for stage in log.stages if stage.name == "wrapper.py"]
    assert len(texts) == modules
    for number, text in enumerate(texts):
        file = tmp_path / f"wrapper{number}.py"
        file.write_text(text)
        done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True)
        assert "us a call" in done.stdout, done.stderr


def test_a_wrapper_that_cannot_run_alone_says_why(tmp_path):
    inner = lambda x: x  # noqa: E731
    file = tmp_path / "wrapper.py"
    end = main_text([], {"object0": inner})
    file.write_text("def call(args): return [object0()]\n" + end)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True)
    assert "this file cannot run alone: no import finds <function" in done.stderr


def test_bytes_of_intermediates_are_counted() -> None:
    """Two products of 4 x 4 float32 are held while the second one is computed, 64 bytes each."""
    with stages.collect(texts=False) as log:
        minitorch2.compile(lambda x: x @ x @ x)(torch.randn(4, 4))
    assert log.counts["intermediate_bytes"] == 128
