"""The vector math library: special values, assembly. Its errors: `tests/accuracy/test_ulps.py`."""

import itertools
import math
import re

import pytest
import torch

import minitorch2
from minitorch2.native.kernels.runtime import KernelSource, compile_module, load_kernel
from minitorch2.native.kernels.vocabulary import LIBM
from minitorch2.native.llvm import machine_code
from tests.accuracy.ulps import compared, truth

INF, NAN = math.inf, math.nan
UNARY = sorted({name for name, arity in LIBM.items() if arity == 1} | {"sigmoid", "rsqrt"})
BINARY = ["pow", "atan2"]
SCALAR = {
    "float32": set(),
    "float64": {"lgamma"},
}
"""What the C library computes, one element at a time."""
SELDOM_SCALAR = {"float32": {"fmod"}, "float64": {"sin", "cos", "tan", "fmod"}}
"""What it computes for huge arguments only."""
IN_DOUBLE = {"pow", "lgamma"}
"""Functions of float32 that are computed in float64."""
SPECIAL = [
    0.0, INF, NAN, 1e-45, 1e-40, 88.8, 89.0, 103.9, 87.5, 200.0, 3e38, 1.0, 0.5, 2.0, 3.0,
]  # fmt: skip
SIGNED = torch.tensor([sign * value for value in SPECIAL for sign in (1, -1)])


def kernel_of(value: str, pointers: tuple[str, ...]) -> KernelSource:
    """A loop that stores a value computed of `x` and, if it reads two arrays, `y`."""
    names = [f"in_ptr{i}" for i in range(len(pointers) - 1)]
    reads = [f"        {name} = {array}[i0]" for name, array in zip("xy", names, strict=False)]
    lines = [
        f"def kernel(lo, hi, {', '.join(names)}, out_ptr0, error):",
        "    for i0 in range(lo, hi):",
        *reads,
        f"        out_ptr0[i0] = {value}",
        "    return 0",
    ]
    text = "\n".join(lines) + "\n"
    return KernelSource("kernel", text, pointers, 0, 10**9)


def apply(name: str, *inputs: torch.Tensor) -> torch.Tensor:
    kinds = tuple(str(x.dtype).removeprefix("torch.") for x in (*inputs, inputs[0]))
    kernel = load_kernel(kernel_of(f"{name}({', '.join('xy'[: len(inputs)])})", kinds))
    result = torch.empty_like(inputs[0])
    kernel(len(result), *(x.data_ptr() for x in inputs), result.data_ptr())
    return result


def assert_like_c(name: str, *inputs: torch.Tensor) -> None:
    """NaN, infinities, zeros with their signs, subnormals."""
    expected = getattr(torch, name)(*(x.double() for x in inputs)).to(inputs[0].dtype)
    result = apply(name, *inputs)
    rtol = 1e-6 if expected.dtype == torch.float32 else 2e-15
    torch.testing.assert_close(result, expected, rtol=rtol, atol=1e-44, equal_nan=True)
    known = ~expected.isnan()
    assert torch.equal(result.signbit()[known], expected.signbit()[known])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_special_values(name, dtype):
    assert_like_c(name, SIGNED.to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_special_values_of_two_arguments(name, dtype):
    values = [*SIGNED.tolist(), 0.3333]
    pairs = torch.tensor(list(itertools.product(values, values)), dtype=dtype)
    assert_like_c(name, pairs[:, 0].contiguous(), pairs[:, 1].contiguous())


def test_erf_between_zero_and_one():
    """Its error used to grow up to 5.8 units where it nears 1, which random samples rarely hit."""
    x = torch.cat([torch.linspace(0, 4.2, 2_000_000), torch.logspace(-38, 0, 100_000)])
    exact = torch.erf(x.double())
    ulp = torch.nextafter(exact.float(), torch.tensor(INF)) - exact.float()
    assert ((apply("erf", x).double() - exact).abs() / ulp.double()).max() <= 2.5
    assert torch.equal(apply("erf", -x), -apply("erf", x))


PACKED = {
    "float32": r"(v?(mul|add|sub|div|fm\w+)ps\s.*(ymm|zmm))|(f(m|div)\w+\s+v\d+\.4s)",
    "float64": r"(v?(mul|add|sub|div|fm\w+)pd\s.*(ymm|zmm))|(f(m|div)\w+\s+v\d+\.2d)",
}
"""Arithmetic on whole vectors, as x86 and ARM write it."""


def assembly_of(source: KernelSource) -> str:
    return machine_code.assembly(compile_module(source, "kernel_symbol"))


@pytest.mark.parametrize("kind", SCALAR)
@pytest.mark.parametrize("name", [*UNARY, *BINARY, "fmod"])
def test_loops_over_a_function_are_vectorized(name, kind):
    two = LIBM.get(name) == 2
    value, pointers = f"{name}({'x, y' if two else 'x'})", (kind,) * (3 if two else 2)
    module = compile_module(kernel_of(value, pointers), "kernel_symbol")
    code = machine_code.assembly(module)
    is_packed = re.search(PACKED["float64" if name in IN_DOUBLE else kind], code) is not None
    missing = (f.name for f in module.functions if f.is_declaration)
    allowed = {name, f"{name}f"} if name in SELDOM_SCALAR[kind] else set()
    calls_out = any(not each.startswith("llvm.") and each not in allowed for each in missing)
    assert (is_packed and not calls_out) == (name not in SCALAR[kind])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_one_huge_argument_changes_nothing_for_its_neighbours(name, dtype):
    """A vector without one skips what huge arguments need: the branch is taken for both kinds."""
    near = torch.linspace(-3e4, 3e4, 1000, dtype=dtype)
    mixed = near.clone()
    mixed[::37] = torch.logspace(7, 38, 28, dtype=dtype)
    mixed[500:503] = torch.tensor([INF, -INF, NAN])
    one_by_one = torch.cat([apply(name, each) for each in mixed.split(1)])
    assert torch.equal(apply(name, mixed).nan_to_num(7.0), one_by_one.nan_to_num(7.0))
    assert torch.equal(apply(name, near)[1:37], apply(name, mixed)[1:37])


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize(
    "step",
    ["add_any_order(acc, x)", "multiply_any_order(acc, x)", "maximum_any_order(acc, x)",
     "minimum_any_order(acc, x)",
     "add_any_order(acc, exp(x))"],
)  # fmt: skip
def test_reductions_are_vectorized(step, kind):
    text = (
        f"def kernel(lo, hi, in_ptr0, out_ptr0, error):\n    acc = {kind}(0.0)\n"
        f"    for i in range(lo, hi):\n        x = in_ptr0[i]\n        acc = {step}\n"
        "    out_ptr0[0] = acc\n    return 0\n"
    )
    code = assembly_of(KernelSource("kernel", text, (kind,) * 2, 0, 1))
    extremes = r"v?(min|max|cmp\w*)p[sd]\s.*(ymm|zmm)|f(min|max)\s+v\d+\.[24][sd]"
    assert re.search(extremes if "imum" in step else PACKED[kind], code)


@pytest.mark.parametrize("short", ["bfloat16", "float16"])
def test_conversions_of_16_bits_are_vectorized(short):
    value = f"to_{short}(from_{short}(x) * float32(2.5))"
    code = assembly_of(kernel_of(value, ("uint16", "uint16")))
    halves = r"|vmulph\s.*(ymm|zmm)"  # a product of two halves, rounded once, is exact in float32
    assert re.search(PACKED["float32"] + halves, code)
    assert "call" not in code


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_constant_powers_are_eagers(dtype):
    """Products and quotients that eager writes for some exponents are written here, too."""
    x = torch.cat([SIGNED.to(dtype), torch.randn(1000, dtype=dtype)])
    for exponent in (-2, -1, 0.5, -0.5, 2, 3):
        power = lambda x, n=exponent: x**n  # noqa: E731
        result = minitorch2.compile(power)(x)
        tolerance = 0 if exponent in (-2, -1, 2, 3) else 3 * torch.finfo(dtype).eps
        torch.testing.assert_close(result, power(x), rtol=tolerance, atol=0, equal_nan=True)


def test_powers_near_one_and_near_the_ends_of_float64():
    """The logarithm needs more digits than float64 has where the exponent is large."""
    torch.manual_seed(0)
    x = torch.cat([1 + torch.randn(2000, dtype=torch.float64) * 1e-6, torch.rand(2000) * 1e300])
    y = torch.cat([torch.randn(2000, dtype=torch.float64) * 1e8, torch.rand(2000) * 2 - 1])
    errors = compared((x, y), apply("pow", x, y), torch.pow(x, y), truth("pow", (x, y)))
    assert errors.ours <= 2 and not errors.special


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_extremes_of_two_are_eagers(name, dtype):
    """NaN wins on either side; of two zeros eager's vectors take the second."""
    pairs = torch.tensor(list(itertools.product(SIGNED.tolist(), repeat=2)), dtype=dtype)
    x, y = pairs[:, 0].contiguous(), pairs[:, 1].contiguous()
    expected = getattr(torch, name)(x, y)
    assert torch.equal(apply(name, x, y).nan_to_num(7), expected.nan_to_num(7))
    assert torch.equal(apply(name, x, y).isnan(), expected.isnan())


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_an_extreme_takes_fewer_instructions_than_llvms(name):
    least, other = (
        len(re.findall(r"\bv(?!mov|zero)\w+\s.*(?:ymm|zmm|%k)", assembly_of(kernel)))
        for kernel in (
            kernel_of(f"{kind}(x, y)", ("float32",) * 3) for kind in (name, f"{name}_any_order")
        )
    )
    assert least < other or other == 0  # no vectors of x86
