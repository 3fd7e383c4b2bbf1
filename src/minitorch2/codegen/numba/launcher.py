"""Calling a kernel from Python: a built-in function per kernel, sharing one machine-code body.

A kernel's entry is `int64 entry(int64 lo, int64 hi, int64 *arguments)`: it does the iterations
lo <= i < hi and answers 0, or 1 after writing `(index, size)` to the error words that the last
argument points to. `make_launcher` gives a Python callable `launch(n, argument, ...)` that does the
iterations 0 <= i < n, on several threads if there are many. Through `ctypes` or a Numba dispatcher
that call would cost 5 to 20 times as much; so its body is built here, with llvmlite, as what
CPython calls a METH_FASTCALL function:

    launch(kernel, arguments):                  kernel is (entry, grain, argument count, threads)
        block = [as_int64(a) for a in arguments[1:]] + [address of error words]
        threads = min(n // grain, threads or omp_get_max_threads())
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

_WORD, _INT, _VOID = ir.IntType(64), ir.IntType(32), ir.VoidType()
_WORDS = _WORD.as_pointer()
_OBJECT = ir.IntType(8).as_pointer()
_ENTRY = ir.FunctionType(_WORD, [_WORD, _WORD, _WORDS])
_SHARE = ir.FunctionType(_VOID, [_OBJECT])
_EXTERNALS = {
    "PyLong_AsLongLong": ir.FunctionType(_WORD, [_OBJECT]),
    "PyErr_Occurred": ir.FunctionType(_OBJECT, []),
    "PyErr_Format": ir.FunctionType(_OBJECT, [_OBJECT, _OBJECT], var_arg=True),
    "PyEval_SaveThread": ir.FunctionType(_OBJECT, []),
    "PyEval_RestoreThread": ir.FunctionType(_VOID, [_OBJECT]),
    "Py_IncRef": ir.FunctionType(_VOID, [_OBJECT]),
    "GOMP_parallel": ir.FunctionType(_VOID, [_SHARE.as_pointer(), _OBJECT, _INT, _INT]),
    "omp_get_thread_num": ir.FunctionType(_INT, []),
    "omp_get_num_threads": ir.FunctionType(_INT, []),
    "omp_get_max_threads": ir.FunctionType(_INT, []),
}
_PYTHON_OBJECTS = ("_Py_NoneStruct", "PyExc_IndexError", "PyExc_TypeError")
_METH_FASTCALL = 0x0080


class _MethodDef(ctypes.Structure):
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


def make_launcher(
    name: str, entry: int, *, arguments: int, grain: int, threads: int = 0
) -> Callable[..., None]:
    """A built-in function `name(n, *arguments)` for a kernel entry.

    Args:
        entry: the address of the entry.
        arguments: how many words the kernel takes, the error words not counted.
        grain: iterations that are worth a thread of their own.
        threads: at most so many threads; 0 = as many as torch uses when the call is made.

    The launcher raises TypeError for a wrong number of arguments, and IndexError for an index that
    the kernel has found out of range.
    """
    kernel = (ctypes.c_int64 * 4)(entry, max(1, grain), arguments, 1 if _forked else threads)
    method = _MethodDef(name.encode(), _body(), _METH_FASTCALL, None)
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
    key = disk.key_of("launcher", source, machine_code.toolchain(), str(bool(threaded)))
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
        ir.GlobalVariable(module, _OBJECT, name)
    if threaded:
        _build_share(module, functions)
    _build_launch(module, functions, threaded)
    return module


def _field(builder: ir.IRBuilder, words: ir.Value, index: int) -> ir.Value:
    return builder.load(builder.gep(words, [_WORD(index)]))


def _build_share(module: ir.Module, functions: dict[str, ir.Function]) -> None:
    """One thread's part: the task is (entry, n, block, status)."""
    share = ir.Function(module, _SHARE, "minitorch2_share")
    builder = ir.IRBuilder(share.append_basic_block())
    task = builder.bitcast(share.args[0], _WORDS)
    entry = builder.inttoptr(_field(builder, task, 0), _ENTRY.as_pointer())
    n, block = _field(builder, task, 1), builder.inttoptr(_field(builder, task, 2), _WORDS)
    thread = builder.sext(builder.call(functions["omp_get_thread_num"], []), _WORD)
    threads = builder.sext(builder.call(functions["omp_get_num_threads"], []), _WORD)
    lo = builder.sdiv(builder.mul(n, thread), threads)
    hi = builder.sdiv(builder.mul(n, builder.add(thread, _WORD(1))), threads)
    status = builder.call(entry, [lo, hi, block])
    with builder.if_then(builder.icmp_signed("!=", status, _WORD(0))):
        builder.store(status, builder.gep(task, [_WORD(3)]))
    builder.ret_void()


def _build_launch(module: ir.Module, functions: dict[str, ir.Function], threaded: bool) -> None:
    kind = ir.FunctionType(_OBJECT, [_OBJECT, _OBJECT.as_pointer(), _WORD])
    launch = ir.Function(module, kind, "minitorch2_launch")
    builder = ir.IRBuilder(launch.append_basic_block())
    address, objects, count = launch.args
    kernel = builder.inttoptr(builder.call(functions["PyLong_AsLongLong"], [address]), _WORDS)
    expected = builder.add(_field(builder, kernel, 2), _WORD(1))
    with builder.if_then(builder.icmp_signed("!=", count, expected), likely=False):
        text = "kernel takes %lld arguments, not %lld"
        _raise(builder, functions, "PyExc_TypeError", text, expected, count)
    block = builder.alloca(_WORD, builder.add(count, _WORD(1)))
    error = builder.alloca(_WORD, _WORD(2))
    _convert(builder, functions, objects, count, block)
    n = builder.load(block)
    words = builder.gep(block, [_WORD(1)])
    builder.store(builder.ptrtoint(error, _WORD), builder.gep(block, [count]))
    status = _run(builder, functions, module, kernel, n, words, threaded)
    with builder.if_then(builder.icmp_signed("!=", status, _WORD(0)), likely=False):
        text = "index %lld is out of bounds for a dimension of size %lld"
        values = _field(builder, error, 0), _field(builder, error, 1)
        _raise(builder, functions, "PyExc_IndexError", text, *values)
    none = module.get_global("_Py_NoneStruct")
    builder.call(functions["Py_IncRef"], [builder.bitcast(none, _OBJECT)])
    builder.ret(builder.bitcast(none, _OBJECT))


def _convert(
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
    i = builder.phi(_WORD)
    i.add_incoming(_WORD(0), before)
    word = builder.call(functions["PyLong_AsLongLong"], [builder.load(builder.gep(objects, [i]))])
    with builder.if_then(builder.icmp_signed("==", word, _WORD(-1)), likely=False):
        null = ir.Constant(_OBJECT, None)
        failed = builder.icmp_unsigned("!=", builder.call(functions["PyErr_Occurred"], []), null)
        with builder.if_then(failed):
            builder.ret(null)
    builder.store(word, builder.gep(block, [i]))
    following = builder.add(i, _WORD(1))
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
    address, grain = _field(builder, kernel, 0), _field(builder, kernel, 1)
    entry = builder.inttoptr(address, _ENTRY.as_pointer())
    if not threaded:
        return builder.call(entry, [_WORD(0), n, words])
    status = builder.alloca(_WORD)
    useful = builder.sdiv(n, grain)
    with builder.if_else(builder.icmp_signed(">", useful, _WORD(1))) as (many, one):
        with many:
            threads = _threads(builder, functions, useful, _field(builder, kernel, 3))
            task = builder.alloca(_WORD, _WORD(4))
            fields = (address, n, builder.ptrtoint(words, _WORD), _WORD(0))
            for i, value in enumerate(fields):
                builder.store(value, builder.gep(task, [_WORD(i)]))
            state = builder.call(functions["PyEval_SaveThread"], [])
            share = module.get_global("minitorch2_share")
            data = builder.bitcast(task, _OBJECT)
            builder.call(functions["GOMP_parallel"], [share, data, threads, _INT(0)])
            builder.call(functions["PyEval_RestoreThread"], [state])
            builder.store(_field(builder, task, 3), status)
        with one:
            builder.store(builder.call(entry, [_WORD(0), n, words]), status)
    return builder.load(status)


def _threads(
    builder: ir.IRBuilder, functions: dict[str, ir.Function], useful: ir.Value, wanted: ir.Value
) -> ir.Value:
    """min(useful, wanted or what torch uses), as a C int."""
    available = builder.sext(builder.call(functions["omp_get_max_threads"], []), _WORD)
    limit = builder.select(builder.icmp_signed(">", wanted, _WORD(0)), wanted, available)
    chosen = builder.select(builder.icmp_signed("<", useful, limit), useful, limit)
    return builder.trunc(chosen, _INT)


def _raise(
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
    builder.call(
        functions["PyErr_Format"], [exception, builder.bitcast(variable, _OBJECT), *values]
    )
    builder.ret(ir.Constant(_OBJECT, None))
