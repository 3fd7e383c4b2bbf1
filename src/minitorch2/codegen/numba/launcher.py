"""Calling a kernel from Python: a built-in function per kernel, sharing one machine-code body.

A kernel's entry is `int64 entry(int64 lo, int64 hi, int64 *arguments)`: it does the iterations
lo <= i < hi and answers 0, or 1 after writing `(index, size)` to the error words that the last
argument points to. `make_launcher` gives a Python callable `launch(n, argument, ...)` that does the
iterations 0 <= i < n, on several threads if there are many. Through `ctypes` or a Numba dispatcher
that call would cost 5 to 20 times as much; so its body is built here, with llvmlite, as what
CPython calls a METH_FASTCALL function:

    launch(kernel, arguments):   kernel is (entry, grain, argument count, threads, place of `inner`)
        block = [word(a) for a in arguments[1:]] + [address of error words]
        work = n * block[inner] if the place is not -1, else n
        threads = min(work // grain, threads or omp_get_max_threads())
        if work // grain <= 1:  status = entry(0, n, block)
        else, without the interpreter lock:
            if threads <= 1:    status = entry(0, n, block)
            else:               GOMP_parallel(share, ...)
        raise IndexError if status else return None

    word(a):  the address of its data if `a` is a tensor, the value of an int: see `tensors`
    share():  t, of = omp_get_thread_num(), omp_get_num_threads();  entry(n*t/of, n*(t+1)/of, block)
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache

import llvmlite.binding as llvm
import torch
from llvmlite import ir

from minitorch2.codegen.numba import builtin, machine_code, openmp, tensors
from minitorch2.codegen.numba.builtin import (
    BODY,
    INT,
    OBJECT,
    VOID,
    WORD,
    WORDS,
    build_conversion,
    build_error,
    field,
)

_ENTRY = ir.FunctionType(WORD, [WORD, WORD, WORDS])
_SHARE = ir.FunctionType(VOID, [OBJECT])
_EXTERNALS = {
    "PyLong_AsLongLong": ir.FunctionType(WORD, [OBJECT]),
    "PyErr_Occurred": ir.FunctionType(OBJECT, []),
    "PyErr_Format": ir.FunctionType(OBJECT, [OBJECT, OBJECT], var_arg=True),
    "PyEval_SaveThread": ir.FunctionType(OBJECT, []),
    "PyEval_RestoreThread": ir.FunctionType(VOID, [OBJECT]),
    "Py_IncRef": ir.FunctionType(VOID, [OBJECT]),
    "GOMP_parallel": ir.FunctionType(VOID, [_SHARE.as_pointer(), OBJECT, INT, INT]),
    "omp_get_thread_num": ir.FunctionType(INT, []),
    "omp_get_num_threads": ir.FunctionType(INT, []),
    "omp_get_max_threads": ir.FunctionType(INT, []),
}
_PYTHON_OBJECTS = ("_Py_NoneStruct", "PyExc_IndexError", "PyExc_TypeError")
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
    """A built-in function `name(n, *arguments)` for a kernel entry; arguments are tensors and ints.

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
    _KERNELS.append(kernel)
    _survive_forks()
    return builtin.make_builtin(name, _body(), ctypes.addressof(kernel))


@cache
def _body() -> int:
    """The address of `launch`, linked with this interpreter and its OpenMP."""
    python = (name for name in _EXTERNALS if name.startswith("Py"))
    builtin.link_python(*python, *_PYTHON_OBJECTS)
    llvm.add_symbol(tensors.WORD_OF, tensors.word_of())
    threaded = openmp.addresses()
    for name, location in (threaded or {}).items():
        llvm.add_symbol(name, location)
    return builtin.load_cached(
        "minitorch2_launch",
        "launcher",
        lambda: _build(threaded is not None),
        source=machine_code.own_sources("builtin", "launcher"),
        threaded=str(bool(threaded)),
    )


def _build(threaded: bool) -> ir.Module:
    module = ir.Module(name="launcher")
    used = {n: k for n, k in _EXTERNALS.items() if threaded or not n.startswith(("GOMP", "omp"))}
    functions = {name: ir.Function(module, kind, name) for name, kind in used.items()}
    functions["word"] = ir.Function(module, tensors.WORD_OF_KIND, tensors.WORD_OF)
    for name in _PYTHON_OBJECTS:
        ir.GlobalVariable(module, OBJECT, name)
    if threaded:
        _build_share(module, functions)
    _build_launch(module, functions, threaded)
    return module


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
    launch = ir.Function(module, BODY, "minitorch2_launch")
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
            state = builder.call(functions["PyEval_SaveThread"], [])
            with builder.if_else(builder.icmp_signed(">", threads, INT(1))) as (several, alone):
                with several:
                    fields = (address, n, builder.ptrtoint(words, WORD), WORD(0))
                    builder.store(_share_out(builder, functions, module, fields, threads), status)
                with alone:
                    builder.store(builder.call(entry, [WORD(0), n, words]), status)
            builder.call(functions["PyEval_RestoreThread"], [state])
        with one:
            builder.store(builder.call(entry, [WORD(0), n, words]), status)
    return builder.load(status)


def _share_out(
    builder: ir.IRBuilder,
    functions: dict[str, ir.Function],
    module: ir.Module,
    fields: tuple[ir.Value, ...],
    threads: ir.Value,
) -> ir.Value:
    """The status of a task, its fields as `share` reads them, on several threads."""
    task = builder.alloca(WORD, WORD(len(fields)))
    for i, value in enumerate(fields):
        builder.store(value, builder.gep(task, [WORD(i)]))
    share, data = module.get_global("minitorch2_share"), builder.bitcast(task, OBJECT)
    builder.call(functions["GOMP_parallel"], [share, data, threads, INT(0)])
    return field(builder, task, 3)


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
    return builder.trunc(chosen, INT)
