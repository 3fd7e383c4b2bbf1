"""Kernels as Numba compiles them: `njit(parallel=True)` over the printed text.

With the option `cpu_compiler="numba"` Numba compiles the very text that `frontend` compiles
otherwise. A function that is printed around it shares the iterations among Numba's threads:

    def launch(n, parts, address..., size..., error):
        status = 0
        for part in prange(parts):
            status += kernel(n * part // parts, n * (part + 1) // parts, pointer..., size..., ...)
        return status

Elementary functions are the same bitcode for both compilers, so results are the same bits. Numba
compiles anew in each process.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any

import llvmlite.binding as llvm
import numba
import torch
from numba import prange, types
from numba.extending import intrinsic

from minitorch2 import config
from minitorch2.foundation.generated_code import execute
from minitorch2.native.kernel_library import library
from minitorch2.native.kernels import linking
from minitorch2.native.kernels.launcher import survive_forks
from minitorch2.native.kernels.python_launcher import PythonLauncher
from minitorch2.native.kernels.vocabulary import VOCABULARY, elementary_functions

REFUSALS = (numba.errors.NumbaError,)
"""What Numba raises for a kernel that it cannot compile."""
_TURNS = Lock()
"""Only one of Numba's threading layers lets several threads of Python launch at once."""


def jit_kernel(
    name: str,
    text: str,
    pointers: tuple[str, ...],
    sizes: int,
    work: Callable[[int, list[int]], int],
) -> PythonLauncher:
    """Let Numba compile a kernel, given as `runtime.KernelSource` says.

    Args:
        work: how many threads a call is worth, given `n` and its other arguments.

    Raises:
        numba.errors.NumbaError: Numba refuses the kernel.
    """
    survive_forks()
    limit = config.current().threads
    alone, shared = _launches(name, text, pointers, sizes)

    def run(n: int, words: list[int]) -> tuple[int, int] | None:
        error = (ctypes.c_int64 * 2)()
        parts = min(n, work(n, words), limit or torch.get_num_threads())
        if parts > 1:
            with _TURNS:
                status = shared(n, parts, *words, ctypes.addressof(error))
        else:
            status = alone(n, 1, *words, ctypes.addressof(error))
        return (error[0], error[1]) if status else None

    return PythonLauncher(name, len(pointers) + sizes + 1, run)


def _launches(name: str, text: str, pointers: tuple[str, ...], sizes: int) -> tuple[Any, Any]:
    """Return the launch on one thread, and the one on several, which is compiled when needed."""
    namespace = dict(names())
    execute(text, f"<minitorch2 kernel {name} for Numba>", namespace)
    signature = linking.signature_of(pointers, sizes)
    kernel = numba.njit(signature, error_model="numpy", nogil=True)(namespace[name])
    around = {"kernel": kernel, "prange": prange, "pointer": _pointer}
    around |= {kind: getattr(types, kind) for kind in (*pointers, "int64")}
    execute(launch_text(pointers, sizes), f"<minitorch2 launch of {name}>", around)
    words = (types.int64,) * (len(pointers) + sizes + 3)
    alone = numba.njit(types.int64(*words), error_model="numpy", nogil=True)(around["launch"])
    shared = numba.njit(error_model="numpy", nogil=True, parallel=True)(around["launch"])
    return alone, shared


def launch_text(pointers: tuple[str, ...], sizes: int) -> str:
    """Print the function that shares a kernel's iterations among threads."""
    addresses = [f"address{i}" for i in range(len(pointers))]
    numbers = [f"size{i}" for i in range(sizes)]
    casts = [f"pointer({word}, {kind})" for word, kind in zip(addresses, pointers, strict=True)]
    given = ["n * part // parts", "n * (part + 1) // parts", *casts, *numbers]
    return (
        f"def launch({', '.join(['n', 'parts', *addresses, *numbers, 'error'])}):\n"
        "    status = 0\n"
        "    for part in prange(parts):\n"
        f"        status += kernel({', '.join(given)}, pointer(error, int64))\n"
        "    return status\n"
    )


@intrinsic
def _pointer(typingctx: Any, address: Any, kind: Any) -> Any:
    """Convert an address to a pointer: Numba's parallel loops take numbers only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.CPointer(kind.dtype)(address, kind), codegen


@cache
def names() -> dict[str, Any]:
    """Return the names of the kernel language for Numba: functions bring their bitcode."""
    return VOCABULARY | elementary_functions(_link)


def _link(context: Any, symbol: str) -> None:
    if symbol in library.LIBRARY:
        code = context.active_code_library
        code.add_linking_library(_library_of(code.codegen, symbol))


@cache
def _library_of(codegen: Any, symbol: str) -> Any:
    """Return a library function, and all that it calls, as Numba links it."""
    module = llvm.parse_bitcode(linking.bitcode(symbol))
    linking.link_library(module, llvm.get_global_context(), keep=symbol)
    linked = codegen.create_library(symbol)
    linked.add_llvm_module(module)
    linked.finalize()
    return linked
