"""Running combinations, in all three handlers."""

import math

import pytest
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.codegen.compile_graph import compile_graph
from minitorch2.codegen.numba.target import NUMBA
from minitorch2.codegen.triton.target import TRITON
from tests.unit.loopir.trace_aten import check, trace

X = torch.randn(5, 6, 7)
EDGES = torch.tensor([1.0, 3.0, 3.0, -math.inf, math.nan, 5.0, math.nan, math.inf])
PROGRAMS = {
    "cumsum": lambda x, dim: torch.cumsum(x.sin(), dim) * 2,
    "cumprod": lambda x, dim: torch.cumprod(x, dim),
    "cumsum_as": lambda x, dim: torch.cumsum(x > 0, dim),
    "cummax": lambda x, dim: torch.cummax(x, dim),
    "cummin": lambda x, dim: torch.cummin(x.round(), dim),
}


def near(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, equal_nan=True)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_meaning(name, dim):
    check(lambda x: PROGRAMS[name](x, dim), X)
    check(lambda x: PROGRAMS[name](x, dim), X, dynamic=True)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("target", [NUMBA, TRITON], ids=["numba", "triton"])
def test_kernels(name, dim, target):
    def function(x):
        return PROGRAMS[name](x, dim)

    expected = function(X)
    ours = compile_graph(trace(function, (X,)), target=target)([X])
    near(ours, expected if isinstance(expected, tuple) else (expected,))


@pytest.mark.parametrize("target", [NUMBA, TRITON], ids=["numba", "triton"])
def test_nan_stays_and_the_last_of_equals_wins(target):
    def function(x):
        return (*torch.cummax(x, 0), *torch.cummin(x, 0))

    near(compile_graph(trace(function, (EDGES,)), target=target)([EDGES]), function(EDGES))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(3, 5000), (5000, 3), (4000,), (7, 1), (2, 0)])
def test_long_scans(dtype, shape):
    x = (torch.randn(shape) * 3).to(dtype)

    def function(x):
        return x.cumsum(0), x.cumsum(-1)

    near(compile_graph(trace(function, (x,)))([x]), function(x))


@pytest.mark.parametrize("length", [3000, 5000])
def test_blocks_of_a_gpu_carry_over(length):
    x = torch.randint(-5, 6, (2, length))

    def function(x):
        return x.cumsum(1), x.cummax(1)[0]

    near(compile_graph(trace(function, (x,)), target=TRITON)([x]), function(x))


def test_a_running_sum_is_eagers_bit_by_bit():
    x = torch.randn(3, 3000) * 1000
    (ours,) = compile_graph(trace(lambda x: x.cumsum(1), (x,)))([x])
    assert torch.equal(ours, x.cumsum(1))


@pytest.mark.parametrize("target", [NUMBA, TRITON], ids=["numba", "triton"])
@pytest.mark.parametrize("dim", [0, 1])
def test_readers_share_the_loop_of_a_scan(target, dim):
    """A value of this step, a running extreme of it, and a reduction over all: one kernel.

    Down the columns, the pointwise reader walks along rows and stays by itself.
    """
    x = torch.randn(6, 40)

    def function(x):
        total = torch.cumsum(x.exp(), dim)
        return total * 2 + x, total.cumsum(dim), total.sum(dim)

    with stages.collect() as log:
        call = compile_graph(trace(function, (x,)), target=target)
    near(call([x]), function(x))
    assert log.counts["kernels"] <= (1 if dim else 2)


def test_a_reader_of_the_next_step_has_a_kernel_of_its_own():
    x = torch.randn(6, 40)

    def function(x):
        total = x.cumsum(1)
        return total, total.flip(1) + 1, total[:, 1:] - total[:, :-1]

    near(compile_graph(trace(function, (x,)))([x]), function(x))


def test_a_split_scan_keeps_its_order():
    """The reader's loops split the scan's; a vote must not exchange the parts."""
    x = torch.randn(8, 12)

    def function(x, y):
        total = x.cumsum(1)
        return total.view(8, 3, 4).transpose(1, 2) + y, total

    y = torch.randn(8, 4, 3)
    near(compile_graph(trace(function, (x, y)))([x, y]), function(x, y))


def test_what_follows_a_scan_has_a_loop_of_its_own():
    """An exponential within the serial loop of a scan was no vector instruction."""
    x = torch.randn(16, 64)
    with stages.collect() as log:
        found = minitorch2.compile(lambda x: x.cumsum(1).exp().sum(1))(x)
    torch.testing.assert_close(found, x.cumsum(1).exp().sum(1))
    (kernel,) = log.texts("kernel.py")
    scan, rest = kernel.split("row0[r0] = ")
    assert " = exp(" not in scan and " = exp(" in rest
