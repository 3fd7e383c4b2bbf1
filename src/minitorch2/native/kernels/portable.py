"""Object code that other processes of the same kind of processor load, without a compiler."""

from __future__ import annotations

import llvmlite.binding as llvm

from minitorch2.native.kernels import launcher, openmp
from minitorch2.native.kernels.runtime import KernelSource, link_kernel
from minitorch2.native.llvm.machine_code import object_code_for
from minitorch2.native.torch_internals import tensors

LAUNCH = "minitorch2_launch"


def kernel_object(source: KernelSource, symbol: str, level: str) -> bytes:
    """Return the object code of a kernel, whose entry is called `symbol`."""
    return object_code_for(level, link_kernel(source, symbol))


def launcher_objects(level: str) -> list[bytes]:
    """Return the object code of the launcher, and of the function that it asks for addresses.

    They rely on CPython's interface alone: no place in an object of PyTorch is built in.
    """
    launcher.body()  # lets this process know the functions that the launcher calls
    launch = llvm.parse_assembly(str(launcher.build(openmp.addresses() is not None)))
    word = llvm.parse_assembly(str(tensors.build_portable_word()))
    return [object_code_for(level, module) for module in (launch, word)]
