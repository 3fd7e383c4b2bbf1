"""Halide kernels: what they compute, what they leave to the CPU target, and what they say."""

import importlib.util
import subprocess
import sys

import pytest
import torch
from torch.nn import functional as F

import minitorch2
from minitorch2 import config, stages
from minitorch2.errors import BackendError

X = torch.randn(40, 70, generator=torch.Generator().manual_seed(0))
POSITIONS = torch.tensor([0, 2, 2, -1])


@pytest.fixture
def compile():
    pytest.importorskip("halide")
    minitorch2.reset()
    return lambda f, **options: minitorch2.compile(
        f, backend="halide", fullgraph=True, options={"suppress_errors": False, **options}
    )


def agree(compiled, function, *inputs, fallbacks=0):
    with stages.collect() as log:
        found = compiled(*inputs)
    torch.testing.assert_close(found, function(*inputs), rtol=1e-4, atol=1e-5, equal_nan=True)
    assert log.counts["kernels"] > 0
    assert log.counts["halide_fallbacks"] == fallbacks
    return log


PROGRAMS = {
    "softmax": lambda x: x.softmax(-1),
    "columns": lambda x: (x * x).sum(0),
    "a value and its sum": lambda x: (x + 1, (x + 1).sum(0)),
    "both axes": lambda x: x.exp().sum() + x.amax(),
    "layer norm": lambda x: F.layer_norm(x, (70,)),
    "positions": lambda x: (x.argmax(1), x.argmin(0)),
    "running sum": lambda x: x.cumsum(1),
    "borders": lambda x: F.pad(x, (3, 3)).roll(5, 1),
    "transposed": lambda x: x.t().contiguous() + 1,
    "gathered": lambda x: x[POSITIONS] * 2,
    "added at positions": lambda x: x.index_add(1, POSITIONS % 70, x[:, :4]),
    "integers": lambda x: (x * 10).long() // 3 + (x * 7).int() % 5,
    "bfloat16": lambda x: (x.bfloat16() * 2).amax(1),
    "float64": lambda x: torch.erf(x.double()).prod(1),
    "nan": lambda x: torch.where(x > 1, torch.nan, x).amax(1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_agree_with_eager(compile, name):
    left = 1 if name == "added at positions" else 0  # its positions are checked
    agree(compile(PROGRAMS[name]), PROGRAMS[name], X, fallbacks=left)


def test_gradients_agree_with_eager(compile):
    def loss(x, w):
        return F.gelu(x @ w).softmax(-1).square().sum()

    inputs = [X.clone().requires_grad_(), torch.randn(70, 9, requires_grad=True)]
    fast = compile(loss)
    for got, wanted in zip(
        torch.autograd.grad(fast(*inputs), inputs), torch.autograd.grad(loss(*inputs), inputs)
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_one_kernel_serves_all_sizes(compile):
    fast = minitorch2.compile(
        lambda x: (x + x.sum(0)).softmax(-1), backend="halide", dynamic=True, fullgraph=True
    )
    with stages.collect() as log:
        for rows, columns in ((5, 7), (64, 33), (3, 200)):
            x = torch.randn(rows, columns)
            torch.testing.assert_close(fast(x), (x + x.sum(0)).softmax(-1))
    assert log.counts["graphs"] == 1 and not log.counts["halide_fallbacks"]


def test_an_output_whose_innermost_loop_is_not_contiguous(compile):
    """Halide takes the first stride of an output for 1, unless it is told another one."""

    def both(a, b):
        chosen = torch.where(a <= 0, torch.zeros(()), b)
        return chosen, chosen.sum(0)

    agree(compile(both), both, X, X + 1)


def test_two_outputs_do_not_write_over_what_the_other_reads(compile):
    def both(x):
        y = x.sin()
        z = torch.mm(y, y.t())  # behind it, y dies
        return (y * z[:, :1] + 1), (y * z[:, :1]).sum(0)

    agree(compile(both), both, X)


def test_an_index_out_of_range_is_an_error_that_names_it(compile):
    fast = compile(lambda x, i: x[i] + 1)
    with pytest.raises(IndexError, match="index 99 is out of bounds"):
        fast(X, torch.tensor([1, 99]))


def test_what_halide_cannot_say_is_left_to_the_cpu_target_and_listed(compile):
    def both(x):
        return torch.fmod(x, 0.3), torch.exp(x)

    report = minitorch2.explain(both, backend="halide")(X)
    agree(compile(both), both, X, fallbacks=1)
    (line,) = (line for line in report.fallbacks if "fmod" in line)
    assert "a kernel of the CPU target: Halide has no fmod" in line


@pytest.mark.parametrize("schedule", ["mullapudi2016", "adams2019", "li2018"])
def test_each_autoscheduler_orders_kernels(compile, schedule):
    agree(compile(PROGRAMS["softmax"], halide_schedule=schedule), PROGRAMS["softmax"], X)


def test_the_autoscheduler_for_gpus_is_an_error_here(compile):
    with pytest.raises(BackendError, match="anderson2021 makes schedules for GPUs only"):
        compile(torch.sin, halide_schedule="anderson2021")(X)


def test_a_printed_kernel_runs_alone(compile, tmp_path):
    log = agree(compile(PROGRAMS["softmax"]), PROGRAMS["softmax"], X)
    (path,) = (path for path in log.write(tmp_path) if path.name.endswith("kernel.py"))
    assert "hl.RDom" in path.read_text() and ".rfactor(" in path.read_text()
    shown = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
    assert "us a call (best" in shown.stdout


def test_object_code_is_found_again_in_the_cache(compile, tmp_path):
    from minitorch2.codegen.halide import launch

    with config.patch(cache_dir=str(tmp_path), cache=True):
        agree(compile(PROGRAMS["columns"]), PROGRAMS["columns"], X)
        launch._LOADED.clear()
        minitorch2.reset()
        with stages.collect() as log:
            compile(lambda x: (x * x).sum(0))(X)
    assert not log.counts["kernels_compiled"]


def test_torch_compile_reaches_it(compile):
    with config.patch(backend="halide"), stages.collect() as log:
        found = torch.compile(PROGRAMS["softmax"], backend="minitorch2")(X)
    torch.testing.assert_close(found, X.softmax(-1))
    assert "import halide as hl" in log.texts("kernel.py")[0]


def test_without_the_package_one_message_says_what_to_install(compile, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "minitorch2.codegen.halide.target.find_spec",
        lambda name: None if name == "halide" else found(name),
    )
    with pytest.raises(BackendError, match=r"pip install 'minitorch2\[halide\]'"):
        compile(torch.sin)(X)
