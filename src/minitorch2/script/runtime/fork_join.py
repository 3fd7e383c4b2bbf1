"""Futures: what `fork` gives, and `wait` takes.

A task runs with the state of the thread that forked it: grad mode, inference mode and autocast,
and the context variables, so the options, too. A thread that waits for a task that has not begun
runs it at once, so that tasks that wait for tasks need no further threads. Tasks that write to one
tensor race: that is the program's matter.
"""

from __future__ import annotations

import contextvars
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from threading import Event, Lock
from typing import Any

import torch


class Future:
    """A result that may not be there yet.

    Attributes:
        is_done: whether the task has ended, with a result or with an error.
    """

    def __init__(self) -> None:
        self._done = Event()
        self._lock = Lock()
        self._callbacks: list[Callable[[], object]] = []
        self._task: Callable[[], Any] | None = None
        self._value: Any = None
        self._error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    def set_result(self, value: Any) -> None:
        """Give the result, and run what waits for it."""
        self._end(value, None)

    def set_error(self, error: BaseException) -> None:
        """Give the error that `wait` is to raise."""
        self._end(None, error)

    def then(self, callback: Callable[[], object]) -> None:
        """Call a function when the task has ended; at once, if it has."""
        with self._lock:
            if not self.is_done:
                self._callbacks.append(callback)
                return
        callback()

    def wait(self) -> Any:
        """Return the result; run the task here if no thread has begun it.

        Raises:
            The error of the task.
        """
        self.join()
        if self._error is not None:
            raise self._error
        return self._value

    def join(self) -> None:
        """Return when the task has ended; run it here if no thread has begun it."""
        self.begin()
        self._done.wait()

    def begin(self) -> None:
        """Run the task, unless it has begun."""
        with self._lock:
            task, self._task = self._task, None
        if task is None:
            return
        try:
            self.set_result(task())
        except BaseException as error:  # noqa: BLE001  # who waits raises it
            self.set_error(error)

    def _end(self, value: Any, error: BaseException | None) -> None:
        with self._lock:
            self._value, self._error = value, error
            self._done.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


def fork(function: Callable[..., Any], *args: Any) -> Future:
    """Begin a call on another thread, and return its future."""
    future = Future()
    future._task = carried(function, *args)
    pool().submit(future.begin)
    return future


def wait(future: Any) -> Any:
    """Return the result of a future; any other value is its own result."""
    return future.wait() if isinstance(future, Future) else future


def carried(function: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    """Return a call that runs with the present thread's state, on whichever thread."""
    context, state = contextvars.copy_context(), _ThreadState()

    def run() -> Any:
        with state.restored():
            return function(*args)

    return lambda: context.copy().run(run)


@cache
def pool() -> ThreadPoolExecutor:
    """Return the threads that tasks run on."""
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="script-fork")


class _ThreadState:
    """The modes of a thread that operators look at."""

    def __init__(self) -> None:
        self.grad_enabled = torch.is_grad_enabled()
        self.inference = torch.is_inference_mode_enabled()
        self.autocast = [
            (device, torch.get_autocast_dtype(device), torch.is_autocast_cache_enabled())
            for device in ("cpu", "cuda")
            if torch.is_autocast_enabled(device)
        ]

    @contextmanager
    def restored(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode(self.inference))
            stack.enter_context(torch.set_grad_enabled(self.grad_enabled))
            for device, dtype, cached in self.autocast:
                stack.enter_context(torch.autocast(device, dtype, cache_enabled=cached))
            yield
