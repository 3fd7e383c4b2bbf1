"""The layout of the interpreter's frame, found by probing instead of in a table.

A probe is installed as frame evaluation function (PEP 523) for one call of a function that we know.
It copies the first words of the frame; `id(code)`, `id(function)` and marked arguments then give
away the fields. Every finding is checked on a second function; a layout that does not fit is
refused.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType

from minitorch2.native.cpython.errors import UnsupportedPythonError
from minitorch2.native.cpython.interpreter_api import address, compile_ir

WORDS = 24
"""Words of a frame that are looked at; the probed functions' frames are longer than that."""
ATTEMPTS = 10
"""The number of looks at a frame before giving up, if other threads' frames get in the way."""
LONGEST_HEADER = 1024
"""An upper bound for the size of a code object up to its first instruction, in bytes."""
THREAD_STATE_BYTES = 128
"""Bytes of a thread state that are looked at; it is longer than that in every version."""


@dataclass(frozen=True, slots=True)
class FrameLayout:
    """Offsets in words from the start of a frame, and two in bytes.

    Attributes:
        code: the code object.
        function: the function object.
        locals: the first local slot; the stack follows the last.
        pointer: the instruction pointer.
        first_instruction: the pointer of an unstarted frame, less the code's address, in
            bytes.
        tracing: 32-bit counter in the thread state, non-zero while a trace or monitoring callback
            runs, in bytes.
    """

    code: int
    function: int
    locals: int
    pointer: int
    first_instruction: int
    tracing: int


EVALUATE_FRAME = address("_PyEval_EvalFrameDefault")
get_thread_state = ctypes.PYFUNCTYPE(ctypes.c_void_p)(address("PyThreadState_Get"))
get_interpreter = ctypes.PYFUNCTYPE(ctypes.c_void_p)(address("PyInterpreterState_Get"))
get_frame_evaluator = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(
    address("_PyInterpreterState_GetEvalFrameFunc")
)
set_frame_evaluator = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
    address("_PyInterpreterState_SetEvalFrameFunc")
)
enter_tracing = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(address("PyThreadState_EnterTracing"))
leave_tracing = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(address("PyThreadState_LeaveTracing"))

PROBE_IR = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define ptr @probe(ptr %thread, ptr %frame, i32 %throw) {{
  %buffer = inttoptr i64 {buffer} to ptr
  call void @llvm.memcpy.p0.p0.i64(ptr %buffer, ptr %frame, i64 {size}, i1 false)
  %evaluate = inttoptr i64 {evaluate} to ptr
  %result = call ptr %evaluate(ptr %thread, ptr %frame, i32 %throw)
  ret ptr %result
}}"""


def slot_count(code: CodeType) -> int:
    """Return the number of local slots of a frame, which its stack follows."""
    own_cells = set(code.co_cellvars) - set(code.co_varnames)
    return len(code.co_varnames) + len(own_cells) + len(code.co_freevars)


def probe_frame_layout() -> FrameLayout:
    """Return the layout of this interpreter's frames; UnsupportedPythonError if unfamiliar."""
    words = (ctypes.c_uint64 * WORDS)()
    probe = compile_ir(
        PROBE_IR.format(
            buffer=ctypes.addressof(words), size=ctypes.sizeof(words), evaluate=EVALUATE_FRAME
        ),
        "probe",
    )
    first, second = (_layout_of(count, words, probe) for count in (WORDS, WORDS + 5))
    if first != second:
        raise UnsupportedPythonError(f"two frames differ in layout: {first} and {second}")
    return first


def _layout_of(count: int, words: ctypes.Array[ctypes.c_uint64], probe: int) -> FrameLayout:
    """Return the layout as the frame of a function with `count` parameters shows it."""
    victim: FunctionType = eval(f"lambda {', '.join(f'a{i}' for i in range(count))}: None")
    marks = [object() for _ in range(count)]
    code = id(victim.__code__)
    for _ in range(ATTEMPTS):
        frame = _copy_frame(victim, marks, words, probe)
        if code in frame:  # another thread's frame may have come after
            break
    local = _only(frame, id(marks[0]))
    if any(word != id(mark) for word, mark in zip(frame[local:], marks)):
        raise UnsupportedPythonError("arguments do not lie side by side in a frame")
    pointers = [i for i, word in enumerate(frame) if 0 < word - code < LONGEST_HEADER]
    if len(pointers) != 1:
        raise UnsupportedPythonError("a frame has no recognizable instruction pointer")
    return FrameLayout(
        code=_only(frame, code),
        function=_only(frame, id(victim)),
        locals=local,
        pointer=pointers[0],
        first_instruction=frame[pointers[0]] - code,
        tracing=_tracing_offset(),
    )


def _copy_frame(
    victim: FunctionType,
    marks: Sequence[object],
    words: ctypes.Array[ctypes.c_uint64],
    probe: int,
) -> list[int]:
    """Return the first words of the victim's frame; a tracer's frames would come after it."""
    interpreter, thread = get_interpreter(), get_thread_state()
    previous = get_frame_evaluator(interpreter)
    enter_tracing(thread)
    set_frame_evaluator(interpreter, probe)
    try:
        victim(*marks)
    finally:
        set_frame_evaluator(interpreter, previous)
        leave_tracing(thread)
    return list(words)


def _only(words: list[int], value: int) -> int:
    """Return the index of a word, which must be there exactly once."""
    if words.count(value) != 1:
        raise UnsupportedPythonError("a field of a frame cannot be told from others")
    return words.index(value)


def _tracing_offset() -> int:
    """Return the offset of the field of the thread state that a trace function counts up."""
    thread = get_thread_state()

    def snapshot() -> list[int]:
        return list((ctypes.c_uint32 * (THREAD_STATE_BYTES // 4)).from_address(thread))

    before = snapshot()
    enter_tracing(thread)
    during = snapshot()
    leave_tracing(thread)
    after = snapshot()
    fields = zip(before, during, after)
    changed = [i for i, (b, d, a) in enumerate(fields) if d == b + 1 and a == b]
    if len(changed) != 1:
        raise UnsupportedPythonError("the thread state has no recognizable tracing counter")
    return 4 * changed[0]
