"""Conversions: what eager makes of numbers that do not fit; bfloat16 that need no rounding."""

import re

import pytest
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.native.kernels.runtime import KernelSource, compile_module
from minitorch2.native.llvm import machine_code
from tests.unit.codegen.test_vecmath import kernel_of

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
BEYOND = [300.0, -300.7, 3e9, 5e9, -3e9, 1e19, torch.inf, -torch.inf, torch.nan, 70000.0, -1.5, 2e9]


@pytest.mark.parametrize("target", [torch.int8, torch.uint8, torch.int16, torch.int32], ids=str)
@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_what_does_not_fit_an_integer_wraps_as_in_eager(source, target):
    x = torch.tensor(BEYOND, dtype=source).repeat(20)
    assert torch.equal(minitorch2.compile(lambda x: x.to(target))(x), x.to(target))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int32"])
def test_no_float_becomes_a_wide_integer_on_the_way(kind):
    def convert(x):
        return x.to(getattr(torch, kind))

    with stages.collect() as log:
        minitorch2.compile(convert)(torch.randn(1000))
    assert "int64(" not in log.texts("kernel.py")[0]


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round_even"])
def test_float16_is_rounded_in_vectors(name):
    value = f"to_float16({name}(from_float16(x)))"
    module = compile_module(kernel_of(value, ("uint16", "uint16")), "kernel_symbol")
    code = machine_code.assembly(module)
    assert not re.search(r"vrndscaless|call", code)


KEPT = {
    "copy": lambda x: x.clone(),
    "pad": lambda x: torch.nn.functional.pad(x, (1, 2), value=0.5),
    "clamp": lambda x: x.clamp(-1, 2),
    "where": lambda x: torch.where(x > 0, -x, x.abs()),
    "rounded": lambda x: x.floor(),
    "flipped": lambda x: x.flip(0).relu(),
}


def every_bfloat16() -> torch.Tensor:
    return torch.arange(-(2**15), 2**15).to(torch.int16).view(torch.bfloat16)


@pytest.mark.parametrize("name", KEPT)
def test_bfloat16_that_is_only_chosen_is_not_rounded(name):
    x = every_bfloat16()
    with stages.collect() as log:
        result = minitorch2.compile(KEPT[name])(x)
    assert "to_bfloat16" not in "".join(log.texts("kernel.py"))
    torch.testing.assert_close(result, KEPT[name](x), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("function", [lambda x: x * 1.5, lambda x: x.clamp(max=0.1), torch.exp])
def test_bfloat16_that_is_computed_is_rounded(function):
    x = every_bfloat16()
    with stages.collect() as log:
        result = minitorch2.compile(function)(x)
    assert "to_bfloat16" in "".join(log.texts("kernel.py"))
    torch.testing.assert_close(result, function(x), equal_nan=True)


@pytest.mark.parametrize("function", [torch.neg, torch.abs], ids=["neg", "abs"])
def test_signs_of_bfloat16_are_bits(function):
    """A loop over them converts nothing: its vectors hold numbers of 16 bits."""
    with stages.collect() as log:
        minitorch2.compile(lambda x: function(x))(every_bfloat16())
    (text,) = log.texts("kernel.py")
    source = KernelSource(text.split()[1].split("(")[0], text, ("uint16", "uint16"), 0, 1000)
    assert not re.search(r"<\d+ x (i32|float)>", str(compile_module(source, "kernel_symbol")))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_sign_of_a_constant_that_would_fit_bfloat16(dtype):
    """-0.5 of float64 was made of its lower 32 bits."""
    x = torch.linspace(-1, 1, 100).to(dtype)
    for function in (torch.nn.functional.hardshrink, torch.nn.functional.softshrink):
        result = minitorch2.compile(lambda x, f=function: f(x))(x)
        torch.testing.assert_close(result, function(x))
