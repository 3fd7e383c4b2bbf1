"""Calling a GPU kernel from Python: a built-in function per kernel, sharing one machine-code body.

Triton's own way is a C extension per signature, which a C compiler builds at the first call, and
which looks at every argument's kind. Here the arguments are words (integers, or tensors that stand
for their addresses: `numba/tensors.py`), and the body is built with llvmlite, once for all kernels
and processes:

    launch(state, arguments):                    arguments are (programs, stream, word...)
        if state has no function, or a word is no multiple of 16 that should be:
            return state.slow(*arguments)        compile, or compile for other words, and launch
        if programs: cuLaunchKernel(function, programs, threads, shared memory, stream, words)
        raise RuntimeError if that failed, else return None

    state ::= function, threads, shared, count, slow, mask of word 0, mask of word 1, ...
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from minitorch2.errors import BackendError
from minitorch2.native.llvm import builtin
from minitorch2.native.llvm.builtin import (
    BODY,
    OBJECT,
    WORD,
    WORDS,
    build_conversion,
    build_error,
    field,
)
from minitorch2.native.torch_internals import tensors

ALIGNMENT = 16
"""Compiled code may assume that addresses, and sizes marked so, are multiples of this."""
_NO_CONTEXT = 201
_MOST_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_FUNCTION, _THREADS, _SHARED, _COUNT, _SLOW, _MASKS = range(6)
_INT = ir.IntType(32)
_POINTERS = WORDS.as_pointer()
_LAUNCH = ir.FunctionType(
    _INT, [OBJECT, _INT, _INT, _INT, _INT, _INT, _INT, _INT, OBJECT, _POINTERS, OBJECT]
)
_PYTHON_FUNCTIONS = {
    "PyLong_AsLongLong": ir.FunctionType(WORD, [OBJECT]),
    "PyErr_Occurred": ir.FunctionType(OBJECT, []),
    "PyErr_Format": ir.FunctionType(OBJECT, [OBJECT, OBJECT], var_arg=True),
    "PyObject_Vectorcall": ir.FunctionType(OBJECT, [OBJECT, OBJECT.as_pointer(), WORD, OBJECT]),
    "Py_IncRef": ir.FunctionType(ir.VoidType(), [OBJECT]),
}
_PYTHON_OBJECTS = ("_Py_NoneStruct", "PyExc_RuntimeError", "PyExc_TypeError")
_KEPT: list[object] = []


@dataclass(frozen=True)
class Binary:
    """A compiled kernel: machine code, the name of its entry, threads of a program, bytes of
    memory that these share."""

    cubin: bytes
    entry: str
    threads: int
    shared: int


@cache
def cuda_driver() -> Any:
    """Return the CUDA driver.

    Raises:
        BackendError: there is none.
    """
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        cause = f"the CUDA driver cannot be loaded: {error}"
        raise BackendError(cause, code="triton-unavailable") from error


def _check(status: int, what: str) -> None:
    if status:
        text = ctypes.c_char_p()
        cuda_driver().cuGetErrorString(status, ctypes.byref(text))
        reason = (text.value or b"unknown").decode()
        raise BackendError(f"{what}: {reason} (CUDA error {status})", code="cuda-error")


def use_device(device: int) -> None:
    """Let this thread launch on a device that PyTorch has in use."""
    handle, context = ctypes.c_int(), ctypes.c_void_p()
    driver = cuda_driver()
    _check(driver.cuInit(0), "cuInit")
    _check(driver.cuDeviceGet(ctypes.byref(handle), device), "cuDeviceGet")
    _check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle), "cuDevicePrimaryCtx")
    _check(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent")


def load_binary(binary: Binary, device: int) -> int:
    """Put a kernel's code on a device; its CUfunction, for as long as the process lives."""
    use_device(device)
    driver, module, function = cuda_driver(), ctypes.c_void_p(), ctypes.c_void_p()
    _check(driver.cuModuleLoadData(ctypes.byref(module), binary.cubin), f"load {binary.entry}")
    found = driver.cuModuleGetFunction(ctypes.byref(function), module, binary.entry.encode())
    _check(found, f"find {binary.entry}")
    if binary.shared > 48 * 1024:
        allowed = driver.cuFuncSetAttribute(function, _MOST_SHARED, binary.shared)
        _check(allowed, f"{binary.shared} bytes of shared memory for {binary.entry}")
    return function.value or 0


class LaunchState:
    """The data that a built-in launcher reads at each call; see the grammar above."""

    def __init__(self, words: int, slow: Callable[..., None]) -> None:
        self.words = (ctypes.c_int64 * (_MASKS + words))()
        self.words[_COUNT] = words + 2
        self.words[_SLOW] = id(slow)
        _KEPT.append((self, slow))

    def set(self, function: int, binary: Binary, aligned: Sequence[bool]) -> None:
        """Launch this kernel from now on, if the words marked as aligned are multiples of 16."""
        self.words[_THREADS], self.words[_SHARED] = binary.threads, binary.shared
        for position, is_aligned in enumerate(aligned):
            self.words[_MASKS + position] = ALIGNMENT - 1 if is_aligned else 0
        self.words[_FUNCTION] = function


def make_gpu_launcher(name: str, state: LaunchState) -> Callable[..., None]:
    """Return a built-in function `name(programs, stream, *words)`.

    It raises TypeError for a wrong number of arguments and RuntimeError for a failed launch.
    """
    return builtin.make_builtin(name, _body(), ctypes.addressof(state.words))


@cache
def _body() -> int:
    """Return the address of `launch`, linked with this interpreter and the CUDA driver."""
    builtin.link_python(*_PYTHON_FUNCTIONS, *_PYTHON_OBJECTS)
    launch = ctypes.cast(cuda_driver().cuLaunchKernel, ctypes.c_void_p).value
    llvm.add_symbol("cuLaunchKernel", launch)
    llvm.add_symbol(tensors.WORD_OF, tensors.word_of())
    return builtin.load_cached("minitorch2_gpu_launch", "gpu launcher", build_module)


def build_module() -> ir.Module:
    """Return the launcher's body as LLVM IR."""
    module = ir.Module(name="gpu_launcher")
    used = _PYTHON_FUNCTIONS | {"cuLaunchKernel": _LAUNCH}
    functions = {name: ir.Function(module, kind, name) for name, kind in used.items()}
    functions["word"] = ir.Function(module, tensors.WORD_OF_KIND, tensors.WORD_OF)
    for name in _PYTHON_OBJECTS:
        ir.GlobalVariable(module, OBJECT, name)
    launch = ir.Function(module, BODY, "minitorch2_gpu_launch")
    _build_launch(launch, functions)
    return module


def _build_launch(launch: ir.Function, functions: dict[str, ir.Function]) -> None:
    _, objects, count = launch.args
    builder, state = builtin.begin_launch(launch, functions, _COUNT)
    block = builder.alloca(WORD, builder.add(count, WORD(2)))
    build_conversion(builder, functions, objects, count, block)
    for extra in (0, 1):  # Triton's kernels take the addresses of two scratch spaces at the end
        builder.store(WORD(0), builder.gep(block, [builder.add(count, WORD(extra))]))
    pointers = builder.alloca(WORDS, builder.add(count, WORD(2)))
    wrong = _build_words(builder, state, block, count, pointers)
    function = field(builder, state, _FUNCTION)
    is_new = builder.icmp_signed("==", function, WORD(0))
    is_slow = builder.or_(is_new, builder.icmp_signed("!=", wrong, WORD(0)))
    with builder.if_then(is_slow, likely=False):
        builder.ret(_build_slow(builder, functions, state, objects, count))
    programs = builder.load(block)
    with builder.if_then(builder.icmp_signed("!=", programs, WORD(0))):
        one, null = _INT(1), ir.Constant(OBJECT, None)
        threads, shared = (builder.trunc(field(builder, state, i), _INT) for i in (1, 2))
        stream = builder.inttoptr(builder.load(builder.gep(block, [WORD(1)])), OBJECT)
        code = builder.inttoptr(function, OBJECT)
        grid = (builder.trunc(programs, _INT), one, one, threads, one, one)
        arguments = [code, *grid, shared, stream, pointers, null]
        status = builder.call(functions["cuLaunchKernel"], arguments)
        with builder.if_then(builder.icmp_signed("==", status, _INT(_NO_CONTEXT)), likely=False):
            builder.ret(_build_slow(builder, functions, state, objects, count))
        with builder.if_then(builder.icmp_signed("!=", status, _INT(0)), likely=False):
            number = builder.sext(status, WORD)
            build_error(builder, functions, "PyExc_RuntimeError", "CUDA error %lld", number)
    none = builder.bitcast(builder.module.get_global("_Py_NoneStruct"), OBJECT)
    builder.call(functions["Py_IncRef"], [none])
    builder.ret(none)


def _build_slow(
    builder: ir.IRBuilder,
    functions: dict[str, ir.Function],
    state: ir.Value,
    objects: ir.Value,
    count: ir.Value,
) -> ir.Value:
    slow = builder.inttoptr(field(builder, state, _SLOW), OBJECT)
    null = ir.Constant(OBJECT, None)
    return builder.call(functions["PyObject_Vectorcall"], [slow, objects, count, null])


def _build_words(
    builder: ir.IRBuilder, state: ir.Value, block: ir.Value, count: ir.Value, pointers: ir.Value
) -> ir.Value:
    """Fill `pointers` with the address of each word; return the bits that break the alignment."""
    before = builder.block
    loop, after = builder.append_basic_block("words"), builder.append_basic_block("checked")
    builder.branch(loop)
    builder.position_at_end(loop)
    i, wrong = builder.phi(WORD), builder.phi(WORD)
    word = builder.gep(block, [builder.add(i, WORD(2))])
    builder.store(word, builder.gep(pointers, [i]))
    is_given = builder.icmp_signed("<", i, builder.sub(count, WORD(2)))
    mask_at = builder.select(is_given, builder.add(i, WORD(_MASKS)), WORD(_MASKS))
    mask = builder.select(is_given, builder.load(builder.gep(state, [mask_at])), WORD(0))
    bits = builder.or_(wrong, builder.and_(builder.load(word), mask))
    following = builder.add(i, WORD(1))
    i.add_incoming(WORD(0), before)
    wrong.add_incoming(WORD(0), before)
    i.add_incoming(following, builder.block)
    wrong.add_incoming(bits, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, count), loop, after)
    builder.position_at_end(after)
    return bits
