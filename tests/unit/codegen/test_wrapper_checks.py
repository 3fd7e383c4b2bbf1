"""Checks that options put into wrappers, and the wrapper's file as a program."""

import re
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from minitorch2 import config, stages
from minitorch2.codegen.compile_graph import compile_graph
from tests.unit.codegen.aten_graph import call_inputs, record

X = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))


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
    assert text.count("assert_no_nan(") == 2
    call(call_inputs(gm, X.abs()))
    with pytest.raises(AssertionError, match=r"fused_log_\w+ has stored NaN in \w+"):
        call(call_inputs(gm, -X.abs()))


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_file_of_a_wrapper_measures_itself(tmp_path, dynamic):
    with config.patch(cache_dir=str(tmp_path), cache=True):
        compiled(
            lambda x, i: F.gelu(torch.mm(x, x.t()))[i], X, torch.tensor([1, 0]), dynamic=dynamic
        )
    (path,) = (tmp_path / "graphs").iterdir()
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"[\d.]+ us a call \(best [\d.]+ us\)\n", done.stdout)
