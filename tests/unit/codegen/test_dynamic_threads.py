"""How many threads a kernel for varying sizes gets, and which memory it goes through."""

from __future__ import annotations

import pytest
import torch

import minitorch2
from minitorch2 import config, stages
from minitorch2.native.kernels import openmp
from minitorch2.native.kernels.runtime import KernelSource, load_kernel

SHARES = """
def shares(lo, hi, out_ptr0, size0, error):
    for i in range(lo, hi):
        out_ptr0[i] = lo
    return 0
"""


@pytest.mark.skipif(openmp.addresses() is None, reason="no OpenMP to share work")
def test_the_elements_of_an_iteration_count_as_work() -> None:
    with config.patch(threads=2):
        kernel = load_kernel(KernelSource("shares", SHARES, ("int64",), 1, grain=8, inner=0))
    found = torch.empty(8, dtype=torch.int64)
    kernel(8, found.data_ptr(), 1)
    assert found.tolist() == [0] * 8
    kernel(8, found.data_ptr(), 4)
    assert found.tolist() == [0] * 4 + [4] * 4
    kernel(0, found.data_ptr(), 4)


def kernels_of(function: object, *inputs: torch.Tensor) -> list[str]:
    with stages.collect() as log, torch.no_grad():
        minitorch2.compile(function, dynamic=True)(*inputs)
    return [*log.texts("kernel.py"), *log.texts("wrapper.py")]


def test_a_row_of_varying_length_is_the_unit_of_work() -> None:
    text = kernels_of(lambda x: torch.softmax(x, -1), torch.randn(6, 9))[-1]
    assert "inner=0" in text


def test_transposed_reads_of_varying_strides_go_through_tiles() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return (x.t() + 1).contiguous()

    fast = minitorch2.compile(f, dynamic=True)
    with stages.collect() as log:
        for shape in [(40, 70), (3, 5), (64, 32), (129, 2), (2, 257)]:
            x = torch.randn(shape)
            torch.testing.assert_close(fast(x), f(x))
    (kernel,) = log.texts("kernel.py")
    assert "stage0 = local_array" in kernel


@pytest.mark.parametrize("dynamic", [True, False])
def test_what_depends_on_the_inner_loop_of_a_tile_stays_in_it(dynamic: bool) -> None:
    def f(x: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        return (x.t() + row).contiguous()

    fast = minitorch2.compile(f, dynamic=dynamic)
    for shape in [(40, 70), (64, 32)]:
        x, row = torch.randn(shape), torch.randn(shape[0])
        torch.testing.assert_close(fast(x, row), f(x, row))
