"""Compiling in a thread beside the program, which runs in Python until an entry is ready.

One thread compiles one call after the other, under the options and the settings of PyTorch that the
call had. The program may change the objects that this thread reads. Each fact that it has read is a
guard, so an entry that was made of facts of different moments is never used. If such a change makes
a compilation fail (a dict changes its size), the program's own thread tries once more, at a call.

    call ::= an entry serves it      run the entry
          |  none does               run in Python, and let it be compiled, unless something of the
                                     same code is
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Any

import torch

from minitorch2.bytecode.compiling.isolation import ThreadState
from minitorch2.native.torch_internals.global_state import is_tracing

_LOCK = threading.Lock()
_executor: ThreadPoolExecutor | None = None
_running: set[Future[Any]] = set()


def can_compile_elsewhere() -> bool:
    """Return whether another thread can have this thread's state: no modes are active."""
    state = ThreadState.now()
    has_modes = state.dispatch_modes or state.function_modes
    return not (has_modes or torch.is_inference_mode_enabled() or is_tracing())


def submit(work: Callable[[], None]) -> Future[None]:
    """Let the compiling thread do some work, in the state that this thread has now."""
    global _executor
    context, state = copy_context(), ThreadState.now()

    def in_this_state() -> None:
        before = ThreadState.now()
        state.restore()
        try:
            context.run(work)
        finally:
            before.restore()

    with _LOCK:
        if _executor is None:
            _executor = ThreadPoolExecutor(1, thread_name_prefix="minitorch2")
        future = _executor.submit(in_this_state)
        _running.add(future)
    future.add_done_callback(_running.discard)
    return future


def finish_compiling(timeout: float | None = None) -> bool:
    """Wait until nothing is compiled in the background; False if that takes longer.

    Args:
        timeout: the most seconds to wait.
    """
    return not wait(list(_running), timeout).not_done


def prepare(run: object) -> None:
    """Compile a graph's backward graph now, which would be compiled when it first runs."""
    backward = getattr(getattr(run, "compiled", None), "backward", None)
    if backward is not None:
        backward.compile()


def _forget_threads() -> None:
    """Forget the compiling thread: a forked process has none of its parent's threads."""
    global _executor, _LOCK
    _executor, _LOCK = None, threading.Lock()
    _running.clear()


os.register_at_fork(after_in_child=_forget_threads)
