"""CPython's C functions as addresses, and machine code made from LLVM IR that may call them.

Nothing here needs a C compiler: llvmlite brings LLVM.
"""

from __future__ import annotations

import ctypes
import os
import sys
import sysconfig

import llvmlite.binding as llvm

from minitorch2.native.cpython.builtin_functions import address, keep_forever
from minitorch2.native.cpython.errors import UnsupportedPythonError

VERSIONS = ((3, 11), (3, 12), (3, 13))
"""The versions of CPython whose frames and code objects are known."""


def check_threads() -> None:
    """Raise UnsupportedPythonError where this package would not be safe.

    That is without a GIL, and in interpreters that are not the process's main one.
    """
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise UnsupportedPythonError("compiling relies on the global interpreter lock")
    if _interpreter("PyInterpreterState_Get") != _interpreter("PyInterpreterState_Main"):
        raise UnsupportedPythonError("compiling works in the main interpreter only")


def _interpreter(function: str) -> int:
    found: int = ctypes.PYFUNCTYPE(ctypes.c_void_p)(address(function))()
    return found


def check_interpreter() -> None:
    """Raise UnsupportedPythonError unless this is a CPython with a GIL that has been tried."""
    check_threads()
    if (sys.implementation.name, sys.version_info[:2]) not in [("cpython", v) for v in VERSIONS]:
        raise UnsupportedPythonError(
            f"frames of {sys.implementation.name} {sys.version.split()[0]} are not known",
            fix="use CPython 3.11, 3.12 or 3.13",
        )
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        raise UnsupportedPythonError("the frame hook needs a 64-bit interpreter")


# LLVM's work for another thread cannot be finished in a child process: a fork waits for it.
os.register_at_fork(
    before=llvm.ffi.lib._lock.__enter__,
    after_in_parent=llvm.ffi.lib._lock.__exit__,
    after_in_child=llvm.ffi.lib._lock.__exit__,
)


def compile_ir(text: str, function: str) -> int:
    """Return the address of a function of an LLVM module.

    Its machine code stays for the life of the process: the interpreter may still call it while
    modules are torn down.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(text)
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    keep_forever(engine)
    return int(engine.get_function_address(function))
