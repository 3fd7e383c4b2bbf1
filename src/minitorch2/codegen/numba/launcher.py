"""Calling a kernel from Python: a built-in function per kernel, sharing one machine-code body.

A kernel's entry is `int64 entry(int64 lo, int64 hi, int64 *arguments)`: it does the iterations
lo <= i < hi and answers 0, or 1 after writing `(index, size)` to the error words that the last
argument points to. `make_launcher` gives a Python callable `launch(n, argument, ...)` that does the
iterations 0 <= i < n, on several threads if there are many. Through `ctypes` or a Numba dispatcher
that call would cost 5 to 20 times as much; so its body is built here, with llvmlite, as what
CPython calls a METH_FASTCALL function:

    launch(kernel, arguments):   kernel is (entry, grain, argument count, threads, place of `inner`)
        block = [as_int64(a) for a in arguments[1:]] + [address of error words]
        work = n * block[inner] if the place is not -1, else n
        threads = min(work // grain, threads or omp_get_max_threads())
        if threads <= 1:  status = entry(0, n, block)
        else:             without the interpreter lock: GOMP_parallel(share, ...)
        raise IndexError if status else return None

    share():  t, of = omp_get_thread_num(), omp_get_num_threads();  entry(n*t/of, n*(t+1)/of, block)
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm
import torch
from llvmlite import ir

from minitorch2.codegen import cache as disk
from minitorch2.codegen.numba import machine_code, openmp

WORD, _INT, _VOID = ir.IntType(64), ir.IntType(32), ir.VoidType()
WORDS = WORD.as_pointer()
OBJECT = ir.IntType(8).as_pointer()
_ENTRY = ir.FunctionType(WORD, [WORD, WORD, WORDS])
_SHARE = ir.FunctionType(_VOID, [OBJECT])
_EXTERNALS = {
    "PyLong_AsLongLong": ir.FunctionType(WORD, [OBJECT]),
    "PyErr_Occurred": ir.FunctionType(OBJECT, []),
    "PyErr_Format": ir.FunctionType(OBJECT, [OBJECT, OBJECT], var_arg=True),
    "PyEval_SaveThread": ir.FunctionType(OBJECT, []),
    "PyEval_RestoreThread": ir.FunctionType(_VOID, [OBJECT]),
    "Py_IncRef": ir.FunctionType(_VOID, [OBJECT]),
    "GOMP_parallel": ir.FunctionType(_VOID, [_SHARE.as_pointer(), OBJECT, _INT, _INT]),
    "omp_get_thread_num": ir.FunctionType(_INT, []),
    "omp_get_num_threads": ir.FunctionType(_INT, []),
    "omp_get_max_threads": ir.FunctionType(_INT, []),
}
_PYTHON_OBJECTS = ("_Py_NoneStruct", "PyExc_IndexError", "PyExc_TypeError")
METH_FASTCALL = 0x0080


class MethodDef(ctypes.Structure):
    """CPython's `PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_KEPT: list[object] = []  # what launchers point to lives as long as the process, as their code does
_KERNELS: list[ctypes.Array[ctypes.c_int64]] = []
_forked = False


def run_serially() -> None:
    """Let all kernels, and torch's operators, run on one thread from now on.

    A child of `os.fork` has none of the threads of its parent's OpenMP pool, and would wait for
    them forever, in a kernel as in any operator of torch.
    """
    global _forked
    _forked = True
    torch.set_num_threads(1)
    for kernel in _KERNELS:
        kernel[3] = 1


@cache
def _survive_forks() -> None:
    os.register_at_fork(after_in_child=run_serially)


@cache
def make_launcher(
    name: str, entry: int, *, arguments: int, grain: int, inner: int | None = None, threads: int = 0
) -> Callable[..., None]:
    """A built-in function `name(n, *arguments)` for a kernel entry.

    Args:
        entry: the address of the entry.
        arguments: how many words the kernel takes, the error words not counted.
        grain: iterations that are worth a thread of their own.
        inner: the argument by which iterations are multiplied before that is asked.
        threads: at most so many threads; 0 = as many as torch uses when the call is made.

    The launcher raises TypeError for a wrong number of arguments, and IndexError for an index that
    the kernel has found out of range.
    """
    kernel = (ctypes.c_int64 * 5)(
        entry, max(1, grain), arguments, 1 if _forked else threads, -1 if inner is None else inner
    )
    method = MethodDef(name.encode(), _body(), METH_FASTCALL, None)
    _KEPT.append(method)
    _KERNELS.append(kernel)
    _survive_forks()
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    launcher: Callable[..., None] = make(ctypes.addressof(method), ctypes.addressof(kernel), None)
    return launcher


@cache
def _body() -> int:
    """The address of `launch`, linked with this interpreter and its OpenMP."""
    for name in (*_EXTERNALS, *_PYTHON_OBJECTS):
        if not name.startswith(("GOMP", "omp")):
            address = ctypes.c_char.in_dll(ctypes.pythonapi, name)
            llvm.add_symbol(name, ctypes.addressof(address))
    threaded = openmp.addresses()
    for name, location in (threaded or {}).items():
        llvm.add_symbol(name, location)
    source = Path(__file__).read_text(encoding="utf-8")
    key = disk.key_of(
        "launcher", source=source, threaded=str(bool(threaded)), **machine_code.toolchain()
    )
    object_code = disk.load(key)
    if object_code is None:
        module = llvm.parse_assembly(str(_build(threaded is not None)))
        machine_code.optimize(module)
        object_code = machine_code.emit_object(module)
        disk.store(key, object_code)
    return machine_code.load(object_code, "minitorch2_launch")


def _build(threaded: bool) -> ir.Module:
    module = ir.Module(name="launcher")
    used = {n: k for n, k in _EXTERNALS.items() if threaded or not n.startswith(("GOMP", "omp"))}
    functions = {name: ir.Function(module, kind, name) for name, kind in used.items()}
    for name in _PYTHON_OBJECTS:
        ir.GlobalVariable(module, OBJECT, name)
    if threaded:
        _build_share(module, functions)
    _build_launch(module, functions, threaded)
    return module


def field(builder: ir.IRBuilder, words: ir.Value, index: int) -> ir.Value:
    """A word of a structure of words."""
    return builder.load(builder.gep(words, [WORD(index)]))


def _build_share(module: ir.Module, functions: dict[str, ir.Function]) -> None:
    """One thread's part: the task is (entry, n, block, status)."""
    share = ir.Function(module, _SHARE, "minitorch2_share")
    builder = ir.IRBuilder(share.append_basic_block())
    task = builder.bitcast(share.args[0], WORDS)
    entry = builder.inttoptr(field(builder, task, 0), _ENTRY.as_pointer())
    n, block = field(builder, task, 1), builder.inttoptr(field(builder, task, 2), WORDS)
    thread = builder.sext(builder.call(functions["omp_get_thread_num"], []), WORD)
    threads = builder.sext(builder.call(functions["omp_get_num_threads"], []), WORD)
    lo = builder.sdiv(builder.mul(n, thread), threads)
    hi = builder.sdiv(builder.mul(n, builder.add(thread, WORD(1))), threads)
    status = builder.call(entry, [lo, hi, block])
    with builder.if_then(builder.icmp_signed("!=", status, WORD(0))):
        builder.store(status, builder.gep(task, [WORD(3)]))
    builder.ret_void()


def _build_launch(module: ir.Module, functions: dict[str, ir.Function], threaded: bool) -> None:
    kind = ir.FunctionType(OBJECT, [OBJECT, OBJECT.as_pointer(), WORD])
    launch = ir.Function(module, kind, "minitorch2_launch")
    builder = ir.IRBuilder(launch.append_basic_block())
    address, objects, count = launch.args
    kernel = builder.inttoptr(builder.call(functions["PyLong_AsLongLong"], [address]), WORDS)
    expected = builder.add(field(builder, kernel, 2), WORD(1))
    with builder.if_then(builder.icmp_signed("!=", count, expected), likely=False):
        text = "kernel takes %lld arguments, not %lld"
        build_error(builder, functions, "PyExc_TypeError", text, expected, count)
    block = builder.alloca(WORD, builder.add(count, WORD(1)))
    error = builder.alloca(WORD, WORD(2))
    build_conversion(builder, functions, objects, count, block)
    n = builder.load(block)
    words = builder.gep(block, [WORD(1)])
    builder.store(builder.ptrtoint(error, WORD), builder.gep(block, [count]))
    status = _run(builder, functions, module, kernel, n, words, threaded)
    with builder.if_then(builder.icmp_signed("!=", status, WORD(0)), likely=False):
        text = "index %lld is out of bounds for a dimension of size %lld"
        values = field(builder, error, 0), field(builder, error, 1)
        build_error(builder, functions, "PyExc_IndexError", text, *values)
    none = module.get_global("_Py_NoneStruct")
    builder.call(functions["Py_IncRef"], [builder.bitcast(none, OBJECT)])
    builder.ret(builder.bitcast(none, OBJECT))


def build_conversion(
    builder: ir.IRBuilder,
    functions: dict[str, ir.Function],
    objects: ir.Value,
    count: ir.Value,
    block: ir.Value,
) -> None:
    """Store each Python int as a word of `block`; return NULL from the function if one is none."""
    before = builder.block
    loop, after = builder.append_basic_block("convert"), builder.append_basic_block("converted")
    builder.branch(loop)
    builder.position_at_end(loop)
    i = builder.phi(WORD)
    i.add_incoming(WORD(0), before)
    word = builder.call(functions["PyLong_AsLongLong"], [builder.load(builder.gep(objects, [i]))])
    with builder.if_then(builder.icmp_signed("==", word, WORD(-1)), likely=False):
        null = ir.Constant(OBJECT, None)
        failed = builder.icmp_unsigned("!=", builder.call(functions["PyErr_Occurred"], []), null)
        with builder.if_then(failed):
            builder.ret(null)
    builder.store(word, builder.gep(block, [i]))
    following = builder.add(i, WORD(1))
    i.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, count), loop, after)
    builder.position_at_end(after)


def _run(
    builder: ir.IRBuilder,
    functions: dict[str, ir.Function],
    module: ir.Module,
    kernel: ir.Value,
    n: ir.Value,
    words: ir.Value,
    threaded: bool,
) -> ir.Value:
    """The status of the kernel, run on one thread or on several."""
    address, grain = field(builder, kernel, 0), field(builder, kernel, 1)
    entry = builder.inttoptr(address, _ENTRY.as_pointer())
    if not threaded:
        return builder.call(entry, [WORD(0), n, words])
    status = builder.alloca(WORD)
    useful = builder.sdiv(_work(builder, kernel, n, words), grain)
    with builder.if_else(builder.icmp_signed(">", useful, WORD(1))) as (many, one):
        with many:
            threads = _threads(builder, functions, useful, field(builder, kernel, 3))
            task = builder.alloca(WORD, WORD(4))
            fields = (address, n, builder.ptrtoint(words, WORD), WORD(0))
            for i, value in enumerate(fields):
                builder.store(value, builder.gep(task, [WORD(i)]))
            state = builder.call(functions["PyEval_SaveThread"], [])
            share = module.get_global("minitorch2_share")
            data = builder.bitcast(task, OBJECT)
            builder.call(functions["GOMP_parallel"], [share, data, threads, _INT(0)])
            builder.call(functions["PyEval_RestoreThread"], [state])
            builder.store(field(builder, task, 3), status)
        with one:
            builder.store(builder.call(entry, [WORD(0), n, words]), status)
    return builder.load(status)


def _work(builder: ir.IRBuilder, kernel: ir.Value, n: ir.Value, words: ir.Value) -> ir.Value:
    """Iterations, times the elements of each if an argument counts them.

    The word before the arguments is `n`, so place -1 can be read, too.
    """
    place = field(builder, kernel, 4)
    inner = builder.load(builder.gep(words, [place]))
    has_inner = builder.icmp_signed(">=", place, WORD(0))
    return builder.mul(n, builder.select(has_inner, inner, WORD(1)))


def _threads(
    builder: ir.IRBuilder, functions: dict[str, ir.Function], useful: ir.Value, wanted: ir.Value
) -> ir.Value:
    """min(useful, wanted or what torch uses), as a C int."""
    available = builder.sext(builder.call(functions["omp_get_max_threads"], []), WORD)
    limit = builder.select(builder.icmp_signed(">", wanted, WORD(0)), wanted, available)
    chosen = builder.select(builder.icmp_signed("<", useful, limit), useful, limit)
    return builder.trunc(chosen, _INT)


def build_error(
    builder: ir.IRBuilder,
    functions: dict[str, ir.Function],
    kind: str,
    text: str,
    *values: ir.Value,
) -> None:
    """Set a Python exception and return NULL."""
    data = bytearray(text.encode() + b"\0")
    constant = ir.Constant(ir.ArrayType(ir.IntType(8), len(data)), data)
    variable = ir.GlobalVariable(
        builder.module, constant.type, builder.module.get_unique_name("text")
    )
    variable.initializer, variable.global_constant, variable.linkage = constant, True, "private"
    exception = builder.load(builder.module.get_global(kind))
    builder.call(functions["PyErr_Format"], [exception, builder.bitcast(variable, OBJECT), *values])
    builder.ret(ir.Constant(OBJECT, None))
