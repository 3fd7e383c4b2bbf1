"""A callback before each Python frame runs, and frames answered without being run (PEP 523).

`FrameHook(callback)` asks `callback(function, arguments)` about every frame that starts while the
hook is enabled in its thread. The callback says None (run the frame as it is) or gives a function
without parameters, whose result becomes the frame's result. The hook is

- off while the callback thinks, and on again while the answer is computed, so that frames called
  from there are asked about too (an answer's own frame as well, unless its code is skipped);
- per thread: other threads run as if there were no hook;
- silent about generators, coroutines, class bodies and modules, about code marked with `skip`, and
  while a trace or monitoring callback runs;
- off while code runs that is marked with `run_apart`, so silent about all that it calls, too.

CPython has already built a frame that is answered, so it must also take it down. The hook puts the
result on the frame's empty stack. It swaps the frame's code for a stub with the same local slots,
which returns the top of the stack (or raises it). CPython's own evaluator then runs the stub.

Source: PyTorch 2 paper, section 3.2 (PyTorch calls its C version `eval_frame`).
"""

from __future__ import annotations

import ctypes
import dis
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from inspect import CO_OPTIMIZED, CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, FunctionType, TracebackType
from typing import Any

from minitorch2.foundation.compile_lock import new_lock
from minitorch2.native.cpython.builtin_functions import address, keep_forever
from minitorch2.native.cpython.errors import UnsupportedPythonError
from minitorch2.native.cpython.frame_layout import (
    EVALUATE_FRAME,
    FrameLayout,
    get_frame_evaluator,
    get_interpreter,
    get_thread_state,
    probe_frame_layout,
    set_frame_evaluator,
    slot_count,
)
from minitorch2.native.cpython.interpreter_api import check_interpreter, compile_ir
from minitorch2.native.cpython.suspendable import SUSPENDABLE
from minitorch2.native.cpython.tables import print_line_table

Answer = Callable[[], object]
Callback = Callable[[FunctionType, tuple[object, ...]], Answer | None]
Entry = Callable[[FunctionType, CodeType, int], tuple[CodeType, object, int] | None]

MOST_THREADS = 256
"""The number of threads that can have a hook enabled at the same time."""
SKIP = 1
"""The content of the extra slot of a skipped code object."""
APART = 2
"""The content of the extra slot of code during which the hook is off."""

HOOK_IR = """
define ptr @hook(ptr %thread, ptr %frame, i32 %throw) {{
entry:                                  ; a resumed frame may be entered with an exception: not ours
  %extra_p = alloca ptr
  store ptr null, ptr %extra_p
  %table = inttoptr i64 {table} to ptr
  %size = load i64, ptr %table
  %fresh = icmp eq i32 %throw, 0
  br i1 %fresh, label %scan, label %run
scan:                                   ; is the hook enabled in this thread?
  %i = phi i64 [ 0, %entry ], [ %next, %other ]
  %more = icmp ult i64 %i, %size
  br i1 %more, label %look, label %run
look:
  %row = mul i64 %i, 2
  %owner_i = add i64 %row, 1
  %owner_p = getelementptr ptr, ptr %table, i64 %owner_i
  %owner = load ptr, ptr %owner_p
  %mine = icmp eq ptr %owner, %thread
  %next = add i64 %i, 1
  br i1 %mine, label %enabled, label %other
other:
  br label %scan
enabled:                                ; not in trace and monitoring callbacks
  %tracing_p = getelementptr i8, ptr %thread, i64 {tracing}
  %tracing = load i32, ptr %tracing_p
  %untraced = icmp eq i32 %tracing, 0
  br i1 %untraced, label %check, label %run
check:                                  ; how is this code marked? asking may mark it
  %is_asked = phi i1 [ false, %enabled ], [ true, %answered ]
  %code_p = getelementptr ptr, ptr %frame, i64 {code}
  %code = load ptr, ptr %code_p
  %get_extra = inttoptr i64 {get_extra} to ptr
  %status = call i32 %get_extra(ptr %code, i64 {extra_index}, ptr %extra_p)
  %extra = load ptr, ptr %extra_p
  %skipped = icmp eq ptr %extra, inttoptr (i64 {skip} to ptr)
  br i1 %skipped, label %run, label %unskipped
unskipped:
  %is_apart = icmp eq ptr %extra, inttoptr (i64 {apart} to ptr)
  br i1 %is_apart, label %apart, label %unmarked
apart:                                  ; off, run, on
  store ptr null, ptr %owner_p
  %evaluate_apart = inttoptr i64 {evaluate} to ptr
  %value_apart = call ptr %evaluate_apart(ptr %thread, ptr %frame, i32 0)
  store ptr %thread, ptr %owner_p
  ret ptr %value_apart
unmarked:
  br i1 %is_asked, label %run, label %ask
ask:                                    ; off, ask, on
  store ptr null, ptr %owner_p
  %callback_i = add i64 %row, 2
  %callback_p = getelementptr ptr, ptr %table, i64 %callback_i
  %callback = load ptr, ptr %callback_p
  %function_p = getelementptr ptr, ptr %frame, i64 {function}
  %function = load ptr, ptr %function_p
  %locals = getelementptr ptr, ptr %frame, i64 {locals}
  %to_int = inttoptr i64 {to_int} to ptr
  %locals_int = call ptr %to_int(ptr %locals)
  %call = inttoptr i64 {call} to ptr
  %answer = call ptr (ptr, ...) %call(
    ptr %callback, ptr %function, ptr %code, ptr %locals_int, ptr null)
  %decref = inttoptr i64 {decref} to ptr
  call void %decref(ptr %locals_int)
  store ptr %thread, ptr %owner_p
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %fail, label %answered
answered:                               ; None, or a tuple (stub, result, number of local slots)
  %none = icmp eq ptr %answer, inttoptr (i64 {none} to ptr)
  br i1 %none, label %check, label %replace
replace:
  %item = inttoptr i64 {item} to ptr
  %incref = inttoptr i64 {incref} to ptr
  %from_int = inttoptr i64 {from_int} to ptr
  %stub = call ptr %item(ptr %answer, i64 0)
  %result = call ptr %item(ptr %answer, i64 1)
  %count_int = call ptr %item(ptr %answer, i64 2)
  %count = call i64 %from_int(ptr %count_int)
  call void %incref(ptr %stub)
  store ptr %stub, ptr %code_p
  call void %decref(ptr %code)
  %top = getelementptr ptr, ptr %locals, i64 %count
  store ptr %result, ptr %top           ; borrowed: the answer keeps it alive until the stub has run
  %stub_i = ptrtoint ptr %stub to i64
  %start = add i64 %stub_i, {first_instruction}
  %pointer_p = getelementptr i64, ptr %frame, i64 {pointer}
  store i64 %start, ptr %pointer_p
  %evaluate_stub = inttoptr i64 {evaluate} to ptr
  %value = call ptr %evaluate_stub(ptr %thread, ptr %frame, i32 0)
  call void %decref(ptr %answer)
  ret ptr %value
fail:                                   ; unwind the frame that has not started
  %unwind = inttoptr i64 {evaluate} to ptr
  %nothing = call ptr %unwind(ptr %thread, ptr %frame, i32 1)
  ret ptr %nothing
run:
  %evaluate = inttoptr i64 {evaluate} to ptr
  %value_as_is = call ptr %evaluate(ptr %thread, ptr %frame, i32 %throw)
  ret ptr %value_as_is
}}"""
"""`table` holds a number of rows, then rows of two words: the thread state for which the row's hook
is enabled (0: none) and its callback. Only the row's own thread writes it, and only with the GIL.
"""


@cache
def machinery() -> _Machinery:
    """Return the process's one native hook; UnsupportedPythonError if it cannot be made."""
    check_interpreter()
    made = _Machinery(probe_frame_layout())
    for function in _OWN_CODE:
        made.mark(function.__code__, SKIP)
    return made


class _Machinery:
    """The native hook, its table of threads, and its index in the extra slots of code objects."""

    def __init__(self, layout: FrameLayout) -> None:
        self.table = (ctypes.c_uint64 * (1 + 2 * MOST_THREADS))()
        keep_forever(self.table)
        self._owners: dict[int, int] = {}
        self._lock = new_lock()
        self._previous: int | None = None
        extra_type = ctypes.PYFUNCTYPE(ctypes.c_ssize_t, ctypes.c_void_p)
        self._extra_index = extra_type(
            address("PyUnstable_Eval_RequestCodeExtraIndex", "_PyEval_RequestCodeExtraIndex")
        )(None)
        self._set_extra = ctypes.PYFUNCTYPE(
            ctypes.c_int, ctypes.py_object, ctypes.c_ssize_t, ctypes.c_void_p
        )(address("PyUnstable_Code_SetExtra", "_PyCode_SetExtra"))
        self._hook = compile_ir(self._ir(layout), "hook")

    def _ir(self, layout: FrameLayout) -> str:
        return HOOK_IR.format(
            table=ctypes.addressof(self.table),
            tracing=layout.tracing,
            code=layout.code,
            function=layout.function,
            locals=layout.locals,
            pointer=layout.pointer,
            first_instruction=layout.first_instruction,
            extra_index=self._extra_index,
            skip=SKIP,
            apart=APART,
            none=id(None),
            evaluate=EVALUATE_FRAME,
            get_extra=address("PyUnstable_Code_GetExtra", "_PyCode_GetExtra"),
            to_int=address("PyLong_FromVoidPtr"),
            from_int=address("PyLong_AsSsize_t"),
            call=address("PyObject_CallFunctionObjArgs"),
            item=address("PyTuple_GetItem"),
            incref=address("Py_IncRef"),
            decref=address("Py_DecRef"),
        )

    def mark(self, code: CodeType, value: int) -> None:
        """Write the extra slot of a code object.

        Raises:
            RecursionError: the program's calls are too deep for one more.
        """
        try:
            self._set_extra(code, self._extra_index, value)
        except ctypes.ArgumentError as error:  # the types are right: ctypes was interrupted
            raise RecursionError("maximum recursion depth exceeded") from error

    def take_row(self) -> int:
        """Take a row of the table for this thread; the first one installs the hook."""
        with self._lock:
            row = next((r for r in range(MOST_THREADS) if r not in self._owners), None)
            if row is None:
                raise UnsupportedPythonError(f"more than {MOST_THREADS} threads compile at once")
            if not self._owners:
                interpreter = get_interpreter()
                self._previous = get_frame_evaluator(interpreter)
                set_frame_evaluator(interpreter, self._hook)
            self._owners[row] = _thread.address
            self.table[0] = max(self._owners) + 1
            return row

    def give_row(self, row: int) -> None:
        """Give this thread's row back; the last one uninstalls the hook.

        An interrupted call may be repeated, also when another thread has taken the row.
        """
        with self._lock:
            if self._owners.get(row) == _thread.address:
                del self._owners[row]
            self.table[0] = max(self._owners, default=-1) + 1
            if not self._owners:
                set_frame_evaluator(get_interpreter(), self._previous)


class _ThreadState(threading.local):
    """A thread's own row (None: it has none), and the address of its thread state."""

    def __init__(self) -> None:
        self.row: int | None = None
        self.address: int = get_thread_state()


_thread = _ThreadState()


class _Switch(AbstractContextManager[None]):
    """A context in which a thread's hook is on (with a callback) or off."""

    __slots__ = ("_entered", "_entry", "_owned", "_saved")

    def __init__(self, entry: Entry | None) -> None:
        self._entry = entry
        self._entered = 0

    def __del__(self) -> None:
        """Do the work of `__exit__` if an interrupt has kept it from running.

        An interrupt before the block may have kept `__init__` from its own work.
        """
        if getattr(self, "_entered", 0) == _thread.address:
            self._leave()

    def __enter__(self) -> None:
        self._owned = _thread.row is None
        if _thread.row is None:
            _thread.row = machinery().take_row()
        table, at = machinery().table, 2 * _thread.row + 1
        self._saved = table[at], table[at + 1]
        table[at] = 0
        table[at + 1] = id(self._entry)
        self._entered = _thread.address
        table[at] = 0 if self._entry is None else _thread.address

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        row = _thread.row
        assert row is not None
        table, at = machinery().table, 2 * row + 1
        table[at] = 0
        table[at + 1] = self._saved[1]
        table[at] = self._saved[0]
        if self._owned:
            machinery().give_row(row)
            _thread.row = None
        self._entered = 0


@cache
def why_unavailable() -> UnsupportedPythonError | None:
    """Return the reason why frames cannot be hooked in this interpreter; None if they can."""
    try:
        machinery()
    except UnsupportedPythonError as error:
        return error
    return None


def disabled() -> AbstractContextManager[None]:
    """Return a context in which this thread's frames run without any hook."""
    return _Switch(None) if why_unavailable() is None else nullcontext()


def skip(code: CodeType) -> None:
    """Run frames of this code as they are from now on, whatever hook is enabled."""
    machinery().mark(code, SKIP)


def run_apart(code: CodeType) -> None:
    """Switch the hook off in a thread, from now on, while it runs frames of this code."""
    machinery().mark(code, APART)


def unskip(code: CodeType) -> None:
    """Take a skip mark back."""
    machinery().mark(code, 0)


class FrameHook:
    """A callback that is asked about frames while the hook is enabled.

    Args:
        callback: called with the frame's function and the values of its parameters, in the order of
            `co_varnames` (positional, keyword-only, `*args` tuple, `**kwargs` dict). Parameters
            that are cells come as plain values; free variables are in `function.__closure__`. The
            call that made the frame raises exceptions of the callback, and of its answer.

    Raises:
        UnsupportedPythonError: this interpreter cannot be hooked.
    """

    def __init__(self, callback: Callback) -> None:
        self._entry = _make_entry(callback)

    def enabled(self) -> _Switch:
        """Return a context in which this thread's frames are asked about."""
        return _Switch(self._entry)


# From a frame to the callback and back.


@dataclass(frozen=True, slots=True)
class _FramePlan:
    """The way in which frames of one code object are read and answered.

    Attributes:
        parameters: a C array type of the parameters' slots; None if these frames are never asked
            about.
        slots: number of local slots; the stack starts behind them.
        returning, raising: stubs that return or raise the value at the bottom of the stack.
        life: drops this plan when the code object dies, since plans are found by its address.
    """

    parameters: type[ctypes.Array[Any]] | None
    slots: int
    returning: CodeType
    raising: CodeType
    life: weakref.ref[CodeType]


_plans: dict[int, _FramePlan] = {}


def _plan(code: CodeType) -> _FramePlan:
    """Return the plan of a code object, made on first sight."""
    key = id(code)
    flags = code.co_flags
    variadic = bool(flags & CO_VARARGS) + bool(flags & CO_VARKEYWORDS)
    count = code.co_argcount + code.co_kwonlyargcount + variadic
    answerable = flags & CO_OPTIMIZED and not flags & SUSPENDABLE and code.co_stacksize > 0
    plan = _plans[key] = _FramePlan(
        parameters=ctypes.py_object * count if answerable else None,
        slots=slot_count(code),
        returning=_stub(code, "RETURN_VALUE"),
        raising=_stub(code, "RERAISE"),
        life=weakref.ref(code, lambda _: _plans.pop(key, None)),
    )
    return plan


def _stub(code: CodeType, ending: str) -> CodeType:
    """Return code with as many local slots as `code` that takes the bottom of the stack, and ends.

    All its slots are plain locals: no cell is made, and debuggers look into slots that claim to
    hold cells. RERAISE as ending leaves no trace of the frame in the exception's traceback.
    """
    slots = slot_count(code)
    varnames = code.co_varnames + tuple(f".cell{i}" for i in range(len(code.co_varnames), slots))
    high = [digit for digit in (slots >> 24, slots >> 16, slots >> 8) if digit]
    units = [(dis.opmap["RESUME"], 0)]
    units += [(dis.opmap["EXTENDED_ARG"], digit & 255) for digit in high]
    units += [(dis.opmap["LOAD_FAST"], slots & 255), (dis.opmap[ending], 0)]
    line = dis.Positions(code.co_firstlineno, None, None, None)
    return code.replace(
        co_code=b"".join(map(bytes, units)),
        co_varnames=varnames,
        co_nlocals=slots,
        co_cellvars=(),
        co_freevars=(),
        co_linetable=print_line_table(code.co_firstlineno, [(line, len(units))]),
        co_exceptiontable=b"",
    )


def _make_entry(callback: Callback) -> Entry:
    """Return the function that the native hook calls: a closure, because every call counts."""
    table = machinery().table

    def enter(
        function: FunctionType, code: CodeType, locals_address: int
    ) -> tuple[CodeType, object, int] | None:
        plan = _plans.get(id(code)) or _plan(code)
        if plan.parameters is None:
            skip(code)
            return None
        answer = callback(function, tuple(plan.parameters.from_address(locals_address)))
        if answer is None:
            return None
        row = _thread.row
        assert row is not None
        table[2 * row + 1] = _thread.address
        try:
            return plan.returning, answer(), plan.slots
        except BaseException as error:  # noqa: BLE001 - the stub raises it again
            # This frame is left out, and no variable keeps the rest: it would be a cycle.
            error = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
            return plan.raising, error, plan.slots
        finally:
            table[2 * row + 1] = 0

    return enter


_OWN_CODE = (
    _Switch.__init__,
    _Switch.__enter__,
    _Switch.__exit__,
    _Switch.__del__,
    _Switch._leave,
    FrameHook.enabled,
    why_unavailable.__wrapped__,
    disabled,
    skip,
    run_apart,
    unskip,
)
"""Functions that run while a hook is enabled."""
