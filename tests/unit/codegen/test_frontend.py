"""The kernel language means what Numba says it means: both compile the same text."""

import ast
import ctypes

import numba
import pytest
import torch

from minitorch2.errors import BackendError
from minitorch2.native.kernels import linking
from minitorch2.native.kernels.runtime import KernelSource, load_kernel
from minitorch2.native.kernels.vocabulary import VOCABULARY

INTEGERS = torch.tensor([-7, -3, -1, 0, 1, 2, 5, 40, -(2**31), 2**31 - 1])
REALS = torch.tensor([-7.5, -1.0, -0.0, 0.0, 0.5, 3.0, 1e30, float("inf"), float("nan"), 2.5])


def kernel_of(body: str, kind: str) -> KernelSource:
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    text = (
        "def kernel(lo, hi, in_ptr0, in_ptr1, out_ptr0, error):\n"
        f"    for i0 in range(lo, hi):\n        x = in_ptr0[i0]\n        y = in_ptr1[i0]\n{lines}\n"
        "    return 0\n"
    )
    return KernelSource("kernel", text, (kind, kind, kind), 0, 10**9)


def by_numba(source: KernelSource, *tensors: torch.Tensor) -> None:
    namespace = dict(VOCABULARY)
    exec(source.text, namespace)
    signature = linking.signature_of(source.pointers, source.sizes)
    compiled = numba.cfunc(signature, error_model="numpy")(namespace["kernel"])
    error = (ctypes.c_int64 * 2)()
    function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)(compiled.address)
    addresses = [tensor.data_ptr() for tensor in tensors]
    function(0, tensors[0].numel(), *addresses, ctypes.addressof(error))


def agree(body: str, values: torch.Tensor) -> None:
    x = values.repeat_interleave(len(values))
    y = values.repeat(len(values))
    source = kernel_of(body, str(values.dtype).removeprefix("torch."))
    found, expected = torch.zeros_like(x), torch.zeros_like(x)
    load_kernel(source)(len(x), x.data_ptr(), y.data_ptr(), found.data_ptr())
    by_numba(source, x, y, expected)
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize(
    "value",
    [
        "x + y * 3 - 2", "x & y | 12 ^ x", "-x", "~x", "abs(x)", "x % 8", "x // 16",
        "min(x, y)", "max(x, 3)", "where(x < y, x, y)", "(x > 0) & (y > 0)", "not x",
        "x if x == y else 5", "int8(x)", "uint8(y)", "float32(x) * float32(0.5)", "x << 2 >> 1",
    ],
)  # fmt: skip
def test_integers(value, dtype):
    agree(f"out_ptr0[i0] = {dtype_name(dtype)}({value})", INTEGERS.to(dtype))


def test_division_rounds_down_and_is_zero_by_zero():
    def expected(a, b):
        return (a // b, a % b) if b else (0, 0)

    x = INTEGERS.repeat_interleave(len(INTEGERS))
    y = INTEGERS.repeat(len(INTEGERS))
    for place, operator in enumerate(("//", "%")):
        found = torch.empty_like(x)
        source = kernel_of(f"out_ptr0[i0] = x {operator} y", "int64")
        load_kernel(source)(len(x), x.data_ptr(), y.data_ptr(), found.data_ptr())
        pairs = zip(x.tolist(), y.tolist())
        assert found.tolist() == [expected(a, b)[place] for a, b in pairs]


@pytest.mark.parametrize(
    "value",
    [
        "x + y", "x - y * x", "x / y", "-x", "x * 2", "x / 3", "float32(x > 0) - float32(x < 0)",
        "maximum(x, y)", "x if x <= y else y", "float32(x == x)", "float32(x != y)", "absolute(x)",
        "float32(float64(x) * 0.1)", "x % float32(2.0)",
    ],
)  # fmt: skip
def test_reals(value):
    agree(f"out_ptr0[i0] = {value}", REALS)


@pytest.mark.parametrize(
    "body",
    [
        "total = int64(0)\nfor r in range(x, 9):\n    total = total + r\nout_ptr0[i0] = total",
        "z = y\nif x > 2 or y < 0:\n    z = x\nout_ptr0[i0] = z",
        "row = local_array(4, int64)\nfor j in range(4):\n    row[j] = x\nout_ptr0[i0] = row[3]",
        "for j in range(3):\n    z = y + j\nj = x\nout_ptr0[i0] = j",
    ],
)
def test_statements(body):
    agree(body, torch.arange(-3, 8))


@pytest.mark.parametrize("body", ["while x: y = x", "out_ptr0[i0] = unknown(x)", "out_ptr0 = {}"])
def test_what_is_outside_of_the_language_is_refused(body):
    ast.parse(body)
    with pytest.raises(BackendError, match="does not compile"):
        load_kernel(kernel_of(body, "int64"))


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
