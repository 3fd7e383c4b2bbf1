"""Object code compiled in threads: LLVM works on kernels while Python writes the next one.

LLVM may work on several modules at once if each has a context and a target machine of its own (LLVM
Programmer's Manual, "Achieving Isolation with LLVMContext"). However, each call of llvmlite takes
one lock of the process. The two calls that take nearly all of the time, `_PIPELINE` and
`_EMISSION`, do not take that lock here. All other calls take it, and the calling thread makes them:
a thread that wants Python's own lock back waits up to five milliseconds while another one runs.

A thread lives for one kernel. At the end of the process Python waits for the threads that still
run. So does a fork: its child process has none of these threads, and no half-done work of theirs.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from threading import Thread
from time import perf_counter
from typing import Any, TypeVar

import llvmlite.binding as llvm

from minitorch2.native.llvm import machine_code

T = TypeVar("T")
_PIPELINE, _EMISSION = "LLVMPY_RunNewModulePassManager", "LLVMPY_TargetMachineEmitToMemory"
_AS_OBJECT_CODE = 1
_RUNNING: list[Thread] = []


class Emission:
    """The object code of a module, in the making.

    Args:
        module: linked, in a context of its own; from now on only this object may use it.

    `seconds` is the time that LLVM took.
    """

    def __init__(self, module: llvm.ModuleRef) -> None:
        self.module = module
        self.machine = machine_code.new_target_machine()
        self.manager, self.builder = machine_code.standard_pipeline(self.machine)
        self.message = llvm.ffi.OutputString()
        self.buffer = in_thread(self._emit)

    def _emit(self) -> Any:
        start = perf_counter()
        without_lock(_PIPELINE)(self.manager, self.module, self.builder)
        emit = without_lock(_EMISSION)
        buffer = emit(self.machine, self.module, _AS_OBJECT_CODE, self.message)
        self.seconds = perf_counter() - start
        return buffer

    def object_code(self) -> bytes:
        """Wait for the object code. To be called once.

        Raises:
            RuntimeError: LLVM refuses the module.
            BackendError: it calls a function that this process does not have.
        """
        buffer = self.buffer.result()
        if not buffer:
            raise RuntimeError(str(self.message))
        try:
            machine_code.refuse_missing(self.module)
            start = llvm.ffi.lib.LLVMPY_GetBufferStart(buffer)
            return ctypes.string_at(start, llvm.ffi.lib.LLVMPY_GetBufferSize(buffer))
        finally:
            llvm.ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


@cache
def without_lock(name: str = _PIPELINE) -> Callable[..., Any]:
    """Return a function of llvmlite's C interface that does not take llvmlite's lock."""
    library = llvm.ffi.lib
    locked = getattr(library, name)
    function = ctypes.CDLL(library._name, handle=library._handle)[name]
    function.argtypes, function.restype = locked.argtypes, locked.restype
    return function


def in_thread(work: Callable[[], T]) -> Future[T]:
    """Start work that does not need Python's lock in a thread; with one core, do it at once.

    There are at most two threads for each core; one more waits for the oldest of them.
    """
    future: Future[T] = Future()
    if cores() == 1:
        _do(work, future)
        return future
    while len(_RUNNING) >= 2 * cores():
        _RUNNING.pop(0).join()
    thread = Thread(target=_do, args=(work, future), name="minitorch2 emission")
    try:
        thread.start()
    except RuntimeError:  # the system has no more threads, or the interpreter ends
        _do(work, future)
    else:
        _RUNNING.append(thread)
    return future


def _do(work: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(work())
    except Exception as error:  # noqa: BLE001  # raised again by `Future.result`
        future.set_exception(error)


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _finish() -> None:
    """Wait for all threads."""
    while _RUNNING:
        _RUNNING.pop().join()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_finish)
