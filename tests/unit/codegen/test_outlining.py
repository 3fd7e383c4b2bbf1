"""Library functions that a large kernel calls instead of having copies of them."""

import re

import pytest
import torch

from minitorch2.native.kernels.runtime import KernelSource, compile_module, load_kernel
from minitorch2.native.llvm.outlining import MOST_INLINED

CALLS = MOST_INLINED + 1
VALUES = {
    "sin": "sin(x)",
    "exp": "exp(x)",
    "pow": "pow(x, real(1.25))",
    "atan2": "atan2(x, y)",
    "round_even": "round_even(x)",
}


def kernel_of(value: str, kind: str, calls: int) -> KernelSource:
    """A loop that applies a function so often, each time to what it gave before."""
    names = "lo, hi, in_ptr0, in_ptr1, out_ptr0, error"
    value = value.replace("real", kind)
    lines = [
        f"def kernel({names}):", "    for i0 in range(lo, hi):", "        y = in_ptr1[i0]",
        "        x0 = in_ptr0[i0]",
        *(f"        x{i + 1} = {value.replace('(x', f'(x{i}')}" for i in range(calls)),
        f"        out_ptr0[i0] = x{calls}", "    return 0",
    ]  # fmt: skip
    return KernelSource("kernel", "\n".join(lines) + "\n", (kind,) * 3, 0, 10**9)


def run(source: KernelSource, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    result = torch.empty_like(x)
    load_kernel(source)(len(x), x.data_ptr(), y.data_ptr(), result.data_ptr())
    return result


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", VALUES)
def test_a_function_that_is_called_gives_what_it_gives_inlined(name, kind):
    x = torch.cat([torch.randn(1003), torch.tensor([1e9, -1e30, torch.inf, torch.nan, 0.0])])
    x, y = x.to(getattr(torch, kind)), torch.randn(len(x), dtype=getattr(torch, kind))
    expected = x
    for _ in range(CALLS):
        expected = run(kernel_of(VALUES[name], kind, 1), expected, y)
    called = run(kernel_of(VALUES[name], kind, CALLS), x, y)
    assert torch.equal(called.view(torch.uint8), expected.view(torch.uint8))


@pytest.mark.parametrize("name", ["sin", "exp", "pow", "atan2"])
def test_a_large_kernel_calls_the_versions_for_vectors(name):
    """A parameter that is the same in all calls stays one: the versions have it, too."""
    text = str(compile_module(kernel_of(VALUES[name], "float32", CALLS), "kernel"))
    assert len(re.findall(rf"call .*<\d+ x float> @minitorch2_{name}_\d+\(", text)) >= CALLS


def test_a_small_kernel_has_its_functions_inlined():
    text = str(compile_module(kernel_of(VALUES["exp"], "float32", MOST_INLINED), "kernel"))
    assert "@minitorch2_exp" not in text


def test_instructions_hardly_grow_with_calls():
    sizes = [
        len(str(compile_module(kernel_of("sin(x)", "float32", n), "kernel")).splitlines())
        for n in (CALLS, 2 * CALLS)
    ]
    assert sizes[1] - sizes[0] < 10 * CALLS, sizes
