"""Calling kernels from Python: a built-in function per launch, sharing one machine-code body.

A kernel's entry is `int64 entry(int64 lo, int64 hi, int64 *arguments)`. It does the iterations lo
<= i < hi and returns 0. For an index out of range it returns 1 and writes `(index, size)` to the
error words that the last argument points to. `make_launcher` returns a Python callable `launch(n,
argument, ...)` that does the iterations 0 <= i < n, on several threads if there are many; `join`
returns one for several kernels. Through `ctypes` or a Numba dispatcher that call would cost 5 to 20
times as much. So its body is built here, with llvmlite, as a METH_FASTCALL function of CPython:

    state  ::= argument count, threads, number of kernels, kernel*
    kernel ::= entry, grain, argument count, place of `inner`

    launch(state, arguments):            arguments are (n, argument...) of each kernel in turn
        block = [n, word(a) for its arguments a, address of error words] for each kernel
        work = sum of n * block[inner] / grain, or n / grain if the place is -1
        threads = min(work, threads or omp_get_max_threads())
        if work < 2:  status = in_turn()
        else, without the interpreter lock:
            if threads <= 1:    status = in_turn()
            else:               GOMP_parallel(share, ...)
        raise IndexError if status else return None

    word(a):    the address of its data if `a` is a tensor, the value of an int: see `tensors`
    in_turn():  entry(0, n, words) for each kernel, until one of them fails
    share():    t, of = omp_get_thread_num(), omp_get_num_threads()
                for each kernel, entry(lo, hi, words) for what lies of it between t/of and (t+1)/of
                of all work
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm
import torch
from llvmlite import ir

from minitorch2.native.kernels import openmp
from minitorch2.native.llvm import builtin
from minitorch2.native.llvm.builtin import (
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
from minitorch2.native.torch_internals import tensors

_ENTRY = ir.FunctionType(WORD, [WORD, WORD, WORDS])
_SHARE = ir.FunctionType(VOID, [OBJECT])
_IN_TURN = ir.FunctionType(WORD, [WORDS, WORD, WORDS])
_REAL = ir.DoubleType()
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
_ARGUMENTS, _THREADS, _COUNT, _KERNELS = range(4)
_ENTRY_AT, _GRAIN, _WORDS, _INNER, _KERNEL_SIZE = range(5)
_STATES: dict[int, ctypes.Array[ctypes.c_int64]] = {}
"""What each launcher reads, by its address, which is what the launcher is bound to."""
_forked = False


def run_serially() -> None:
    """Let all kernels, and torch's operators, run on one thread from now on.

    A child of `os.fork` has none of the threads of its parent's OpenMP pool, and would wait for
    them forever, in a kernel as in any operator of torch.
    """
    global _forked
    _forked = True
    torch.set_num_threads(1)
    for state in _STATES.values():
        state[_THREADS] = 1


@cache
def survive_forks() -> None:
    """Let a child of `os.fork` run its kernels on one thread, from now on."""
    os.register_at_fork(after_in_child=run_serially)


@cache
def make_launcher(
    name: str, entry: int, *, arguments: int, grain: int, inner: int | None = None, threads: int = 0
) -> Callable[..., None]:
    """Make a built-in function `name(n, *arguments)` for a kernel entry, of tensors and ints.

    Args:
        entry: the address of the entry.
        arguments: how many words the kernel takes, the error words not counted.
        grain: iterations that are worth a thread of their own.
        inner: the argument by which iterations are multiplied before that is asked.
        threads: at most so many threads; 0 = as many as torch uses when the call is made.

    The launcher raises TypeError for a wrong number of arguments, and IndexError for an index that
    the kernel has found out of range.
    """
    kernel = (entry, max(1, grain), arguments, -1 if inner is None else inner)
    return _launcher_of(name, (arguments + 1, threads, 1, *kernel))


def join(name: str, launchers: Sequence[Callable[..., None]]) -> Callable[..., None]:
    """Return a launcher of several kernels, given a launcher of each.

    It takes the arguments of the first kernel, then those of the second, and so on. The kernels run
    in any order.
    """
    given = [_STATES[launcher.__self__] for launcher in launchers]  # type: ignore[attr-defined]
    kernels = [word for state in given for word in state[_KERNELS:]]
    arguments = sum(state[_ARGUMENTS] for state in given)
    return _launcher_of(name, (arguments, given[0][_THREADS], len(given), *kernels))


def _launcher_of(name: str, words: Sequence[int]) -> Callable[..., None]:
    state = (ctypes.c_int64 * len(words))(*words)
    if _forked:
        state[_THREADS] = 1
    _STATES[ctypes.addressof(state)] = state
    survive_forks()
    return builtin.make_builtin(name, body(), ctypes.addressof(state))


@cache
def body() -> int:
    """Return the address of `launch`, linked with this interpreter and its OpenMP."""
    python = (name for name in _EXTERNALS if name.startswith("Py"))
    builtin.link_python(*python, *_PYTHON_OBJECTS)
    llvm.add_symbol(tensors.WORD_OF, tensors.word_of())
    threaded = openmp.addresses()
    for name, location in (threaded or {}).items():
        llvm.add_symbol(name, location)
    return builtin.load_cached(
        "minitorch2_launch",
        "launcher",
        lambda: build(threaded is not None),
        threaded=str(bool(threaded)),
    )


def build(threaded: bool) -> ir.Module:
    """Return the module of `launch`."""
    module = ir.Module(name="launcher")
    used = {n: k for n, k in _EXTERNALS.items() if threaded or not n.startswith(("GOMP", "omp"))}
    functions = {name: ir.Function(module, kind, name) for name, kind in used.items()}
    functions["word"] = ir.Function(module, tensors.WORD_OF_KIND, tensors.WORD_OF)
    for name in _PYTHON_OBJECTS:
        ir.GlobalVariable(module, OBJECT, name)
    _build_in_turn(module)
    if threaded:
        _build_share(module, functions)
    _build_launch(module, functions, threaded)
    return module


@dataclass(frozen=True)
class _Kernel:
    """A kernel of a launch in machine code: its fields, and its words, which begin with n."""

    builder: ir.IRBuilder
    fields: ir.Value
    words: ir.Value

    def field(self, index: int) -> ir.Value:
        """Return a field of the state."""
        return field(self.builder, self.fields, index)

    @property
    def n(self) -> ir.Value:
        """The number of iterations."""
        return self.builder.load(self.words)

    def run(self, lo: ir.Value, hi: ir.Value) -> ir.Value:
        """Run some iterations; return the status."""
        entry = self.builder.inttoptr(self.field(_ENTRY_AT), _ENTRY.as_pointer())
        return self.builder.call(entry, [lo, hi, self.builder.gep(self.words, [WORD(1)])])

    def work(self) -> ir.Value:
        """Return the number of threads that the kernel is worth."""
        builder, place = self.builder, self.field(_INNER)
        # The word before the arguments is n, so place -1 can be read, too.
        inner = builder.load(builder.gep(self.words, [builder.add(place, WORD(1))]))
        has_inner = builder.icmp_signed(">=", place, WORD(0))
        steps = builder.mul(self.n, builder.select(has_inner, inner, WORD(1)))
        return builder.fdiv(_as_real(builder, steps), _as_real(builder, self.field(_GRAIN)))

    def cut(self, work: ir.Value, until: ir.Value) -> ir.Value:
        """Return the first iteration that is not done when the part `until` of its work is done."""
        builder = self.builder
        part = builder.fdiv(until, work)
        part = builder.select(builder.fcmp_ordered(">", part, _REAL(0)), part, _REAL(0))
        part = builder.select(builder.fcmp_ordered("<", part, _REAL(1)), part, _REAL(1))
        return builder.fptosi(builder.fmul(part, _as_real(builder, self.n)), WORD)


def _as_real(builder: ir.IRBuilder, number: ir.Value) -> ir.Value:
    return builder.sitofp(number, _REAL)


@contextmanager
def _each_kernel(
    builder: ir.IRBuilder, kernels: ir.Value, count: ir.Value, block: ir.Value
) -> Iterator[_Kernel]:
    """A loop over kernels whose words follow each other in a block."""
    left, fields, words = (_variable(builder, value) for value in (count, kernels, block))
    test, loop, after = map(builder.append_basic_block, ("test", "kernel", "after"))
    builder.branch(test)
    builder.position_at_end(test)
    builder.cbranch(builder.icmp_signed(">", builder.load(left), WORD(0)), loop, after)
    builder.position_at_end(loop)
    kernel = _Kernel(builder, builder.load(fields), builder.load(words))
    yield kernel
    size = builder.add(kernel.field(_WORDS), WORD(2))
    builder.store(builder.gep(kernel.words, [size]), words)
    builder.store(builder.gep(kernel.fields, [WORD(_KERNEL_SIZE)]), fields)
    builder.store(builder.sub(builder.load(left), WORD(1)), left)
    builder.branch(test)
    builder.position_at_end(after)


def _variable(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Return a place that loops change."""
    with builder.goto_entry_block():
        place = builder.alloca(value.type)
    builder.store(value, place)
    return place


def _build_in_turn(module: ir.Module) -> None:
    """Build the function that runs all kernels on this thread and returns their status."""
    function = ir.Function(module, _IN_TURN, "minitorch2_in_turn")
    builder = ir.IRBuilder(function.append_basic_block())
    with _each_kernel(builder, *function.args) as kernel:
        status = kernel.run(WORD(0), kernel.n)
        with builder.if_then(builder.icmp_signed("!=", status, WORD(0)), likely=False):
            builder.ret(status)
    builder.ret(WORD(0))


def _build_share(module: ir.Module, functions: dict[str, ir.Function]) -> None:
    """Build one thread's part of a task, which is (kernels, their number, block, status)."""
    share = ir.Function(module, _SHARE, "minitorch2_share")
    builder = ir.IRBuilder(share.append_basic_block())
    task = builder.bitcast(share.args[0], WORDS)
    kernels, count, block = (field(builder, task, i) for i in range(3))
    given = builder.inttoptr(kernels, WORDS), count, builder.inttoptr(block, WORDS)
    thread = builder.call(functions["omp_get_thread_num"], [])
    threads = builder.call(functions["omp_get_num_threads"], [])
    following = builder.add(thread, INT(1))
    total, before = _variable(builder, _REAL(0)), _variable(builder, _REAL(0))
    with _each_kernel(builder, *given) as kernel:
        builder.store(builder.fadd(builder.load(total), kernel.work()), total)
    of_each = builder.fdiv(builder.load(total), _as_real(builder, threads))
    first, last = (builder.fmul(of_each, _as_real(builder, t)) for t in (thread, following))
    is_last = builder.icmp_signed("==", following, threads)
    with _each_kernel(builder, *given) as kernel:
        work, done = kernel.work(), builder.load(before)
        lo, cut = (kernel.cut(work, builder.fsub(until, done)) for until in (first, last))
        hi = builder.select(is_last, kernel.n, cut)
        with builder.if_then(builder.icmp_signed("<", lo, hi)):
            status = kernel.run(lo, hi)
            with builder.if_then(builder.icmp_signed("!=", status, WORD(0)), likely=False):
                builder.store(status, builder.gep(task, [WORD(3)]))
        builder.store(builder.fadd(done, work), before)
    builder.ret_void()


def _build_launch(module: ir.Module, functions: dict[str, ir.Function], threaded: bool) -> None:
    launch = ir.Function(module, BODY, "minitorch2_launch")
    _, objects, given = launch.args
    builder, state = builtin.begin_launch(launch, functions, _ARGUMENTS)
    count, kernels = field(builder, state, _COUNT), builder.gep(state, [WORD(_KERNELS)])
    block, error = builder.alloca(WORD, builder.add(given, count)), builder.alloca(WORD, WORD(2))
    left, work = _variable(builder, objects), _variable(builder, _REAL(0))
    with _each_kernel(builder, kernels, count, block) as kernel:
        taken = builder.add(kernel.field(_WORDS), WORD(1))
        build_conversion(builder, functions, builder.load(left), taken, kernel.words)
        builder.store(builder.ptrtoint(error, WORD), builder.gep(kernel.words, [taken]))
        builder.store(builder.gep(builder.load(left), [taken]), left)
        builder.store(builder.fadd(builder.load(work), kernel.work()), work)
    task = kernels, count, block
    status = _run(builder, functions, state, task, builder.load(work), threaded)
    with builder.if_then(builder.icmp_signed("!=", status, WORD(0)), likely=False):
        text = "index %lld is out of bounds for a dimension of size %lld"
        values = field(builder, error, 0), field(builder, error, 1)
        build_error(builder, functions, "PyExc_IndexError", text, *values)
    none = module.get_global("_Py_NoneStruct")
    builder.call(functions["Py_IncRef"], [builder.bitcast(none, OBJECT)])
    builder.ret(builder.bitcast(none, OBJECT))


_Task = tuple[ir.Value, ir.Value, ir.Value]


def _run(
    builder: ir.IRBuilder,
    functions: dict[str, ir.Function],
    state: ir.Value,
    task: _Task,
    work: ir.Value,
    threaded: bool,
) -> ir.Value:
    """Return the status of a task, done by one thread or by several."""
    in_turn = builder.module.get_global("minitorch2_in_turn")
    if not threaded:
        return builder.call(in_turn, task)
    status = builder.alloca(WORD)
    with builder.if_else(builder.fcmp_ordered(">=", work, _REAL(2))) as (many, one):
        with many:
            useful = builder.fptosi(work, WORD)
            threads = _threads(builder, functions, useful, field(builder, state, _THREADS))
            saved = builder.call(functions["PyEval_SaveThread"], [])
            with builder.if_else(builder.icmp_signed(">", threads, INT(1))) as (several, alone):
                with several:
                    builder.store(_share_out(builder, functions, task, threads), status)
                with alone:
                    builder.store(builder.call(in_turn, task), status)
            builder.call(functions["PyEval_RestoreThread"], [saved])
        with one:
            builder.store(builder.call(in_turn, task), status)
    return builder.load(status)


def _share_out(
    builder: ir.IRBuilder, functions: dict[str, ir.Function], task: _Task, threads: ir.Value
) -> ir.Value:
    """Return the status of a task on several threads."""
    kernels, count, block = task
    words = builder.alloca(WORD, WORD(4))
    values = builder.ptrtoint(kernels, WORD), count, builder.ptrtoint(block, WORD), WORD(0)
    for i, value in enumerate(values):
        builder.store(value, builder.gep(words, [WORD(i)]))
    share, data = builder.module.get_global("minitorch2_share"), builder.bitcast(words, OBJECT)
    builder.call(functions["GOMP_parallel"], [share, data, threads, INT(0)])
    return field(builder, words, 3)


def _threads(
    builder: ir.IRBuilder, functions: dict[str, ir.Function], useful: ir.Value, wanted: ir.Value
) -> ir.Value:
    """Return min(useful, wanted or torch's number of threads), as a C int."""
    available = builder.sext(builder.call(functions["omp_get_max_threads"], []), WORD)
    limit = builder.select(builder.icmp_signed(">", wanted, WORD(0)), wanted, available)
    chosen = builder.select(builder.icmp_signed("<", useful, limit), useful, limit)
    return builder.trunc(chosen, INT)
