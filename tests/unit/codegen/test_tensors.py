"""Tensors in machine code: kernels take them as they are, and memory is made without Python."""

import subprocess
import sys

import pytest
import torch

from minitorch2.native.kernels.runtime import KernelSource, load_kernel
from minitorch2.native.torch_internals import tensors
from minitorch2.native.torch_internals.tensors import empty_cpu, empty_gpu
from tests.unit.work import python_calls

DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128,
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float8_e5m2,
)  # fmt: skip


class Subclass(torch.Tensor):
    """Of another type, so its address is asked for."""


@pytest.fixture
def add_one():
    text = """
def add_one(lo, hi, in_ptr0, out_ptr0, error):
    for i0 in range(lo, hi):
        out_ptr0[i0] = in_ptr0[i0] + float32(1.0)
    return 0
"""
    return load_kernel(KernelSource("add_one", text, ("float32", "float32"), 0, 10**6))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3, 4, 5, 6, 7)], ids=str)
def test_new_tensors_are_what_was_asked_for(shape, dtype):
    like = torch.empty(shape, dtype=dtype)
    made = empty_cpu(tuple(shape), like.stride(), dtype)
    assert type(made) is torch.Tensor and made.is_leaf and not made.requires_grad
    assert (made.shape, made.stride(), made.dtype) == (like.shape, like.stride(), dtype)
    assert made.device.type == "cpu" and made.storage_offset() == 0
    assert made.untyped_storage().nbytes() == like.untyped_storage().nbytes()


def test_strides_of_any_order():
    made = empty_cpu((2, 3), (1, 2), torch.float32)
    made.copy_(torch.arange(6.0).view(2, 3))
    assert made.stride() == (1, 2) and made.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_device_may_be_told():
    """A number below 0 stands for the CPU, so that this runs without a GPU."""
    made = empty_gpu((2, 3), (1, 2), torch.float16, -1)
    assert (made.shape, made.stride(), made.dtype) == ((2, 3), (1, 2), torch.float16)
    assert made.device.type == "cpu"
    if not torch.cuda.is_available():
        with pytest.raises((RuntimeError, AssertionError), match=r"CUDA|NVIDIA"):
            empty_gpu((2,), (1,), torch.float16, 0)


@pytest.mark.gpu
def test_a_tensor_on_a_gpu():
    made = empty_gpu((2, 3), (1, 2), torch.float16, 0)
    assert (made.device, made.stride()) == (torch.device("cuda", 0), (1, 2))
    assert torch.equal(made.fill_(2) + 1, torch.full((2, 3), 3.0, device="cuda").half())


def test_a_tensor_that_is_made_in_inference_mode_belongs_to_it():
    with torch.inference_mode():
        assert empty_cpu((2,), (1,), torch.float32).is_inference()
    assert not empty_cpu((2,), (1,), torch.float32).is_inference()


def test_what_cannot_be_made_is_python_s_error():
    with pytest.raises(RuntimeError, match="memory"):
        empty_cpu((2**58,), (1,), torch.float32)
    with pytest.raises(RuntimeError):
        empty_cpu((2, 3), (1,), torch.float32)
    assert empty_cpu([2], [1], torch.float32).shape == (2,)
    for wrong in ((), ((2,), (1,), "float32"), ((1.5,), (1,), torch.float32)):
        with pytest.raises(TypeError):
            empty_cpu(*wrong)


def test_new_tensors_do_not_leak():
    def used() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1])

    def make() -> None:
        for _ in range(50):
            empty_cpu((1 << 20,), (1,), torch.float32).fill_(0)

    make()
    before = used()
    make()
    assert used() - before < 50 * 1024, "pages of 4 KiB; leaking all would take as many again"
    made = empty_cpu((8,), (1,), torch.float32)
    assert sys.getrefcount(made) == 2 and made._use_count() == 1


@pytest.mark.parametrize("kind", ["tensor", "parameter", "subclass", "view", "address"])
def test_kernels_take_tensors_of_any_class_and_addresses(add_one, kind):
    base = torch.arange(8.0)
    given = {
        "tensor": base,
        "parameter": torch.nn.Parameter(base),
        "subclass": base.as_subclass(Subclass),
        "view": torch.arange(-4.0, 8.0)[4:],
        "address": base.data_ptr(),
    }[kind]
    found = torch.zeros(8)
    add_one(8, given, found)
    assert found.tolist() == (base + 1).tolist()


def test_a_kernel_is_not_given_what_has_no_memory(add_one):
    with pytest.raises(TypeError):
        add_one(1, 1.5, torch.zeros(1))
    sparse = torch.sparse_coo_tensor([[0]], [1.0], (1,), check_invariants=True)
    with pytest.raises(RuntimeError):
        add_one(1, sparse, torch.zeros(1))


def test_where_nothing_is_familiar_python_is_asked():
    program = (
        "import torch\n"
        "from ctypes import CDLL\n"
        "import ctypes\n"
        "real = ctypes.CDLL\n"
        "ctypes.CDLL = lambda path=None, *a, **k: (_ for _ in ()).throw(OSError('gone'))"
        " if path == torch._C.__file__ else real(path, *a, **k)\n"
        "import minitorch2\n"
        "from minitorch2.native.torch_internals import tensors\n"
        "print(tensors.interface_of_torch(), tensors.empty_cpu is tensors._python_empty)\n"
        "f = minitorch2.compile(lambda x: x.softmax(-1).sum(0))\n"
        "x = torch.randn(4, 5)\n"
        "print(torch.allclose(f(x), x.softmax(-1).sum(0)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("None True\nTrue\n", 0), done.stderr


@pytest.mark.skipif(tensors.interface_of_torch() is None, reason="this PyTorch is unfamiliar")
def test_a_new_tensor_calls_no_python_function():
    calls = python_calls(lambda: empty_cpu((32, 32), (32, 1), torch.float32))
    assert calls == 1, "the lambda itself"
