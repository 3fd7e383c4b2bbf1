"""The one lock of the compiler: held while anything is compiled or forgotten, never while it runs.

Compiling changes what all threads share: caches of entries, of expressions and of kernels. A second
thread that meets something new waits for the first. Capture releases the lock while the backend
runs, since a user's backend may start threads that compile, and wait for them. This project's own
backends take the lock again where they change shared caches.
"""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

_LOCKS: weakref.WeakSet[threading.RLock] = weakref.WeakSet()


def new_lock() -> threading.RLock:
    """Return a lock that is free in a child process, whichever thread of the parent holds it.

    A child has only the thread that forked, so no other thread would release the lock.
    """
    lock = threading.RLock()
    _LOCKS.add(lock)
    return lock


def _free_locks() -> None:
    for lock in _LOCKS:
        if not lock._is_owned():  # type: ignore[attr-defined]
            lock._at_fork_reinit()  # type: ignore[attr-defined]


os.register_at_fork(after_in_child=_free_locks)

COMPILING = new_lock()
"""A thread may take it several times: backends may call compiled functions."""


@contextmanager
def released() -> Iterator[None]:
    """Let other threads compile during the block, however often this thread holds the lock."""
    held = None
    try:  # an interruption at any line of this function must not lose the lock
        held = COMPILING._release_save()  # type: ignore[attr-defined]  # as threading.Condition
        yield
    finally:
        if held is not None and not is_held():
            COMPILING._acquire_restore(held)  # type: ignore[attr-defined]


@contextmanager
def garbage_uncollected() -> Iterator[None]:
    """Let no collection of cyclic garbage begin during the block.

    Nearly all objects that a compilation makes stay alive. Each full collection would visit all
    objects of the process and free none of them, which took a fifth of the time to compile a large
    model.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


MOST_SECONDS = 60.0
"""How long a thread waits for another one that compiles the same code."""


@contextmanager
def in_turn(lock: threading.RLock) -> Iterator[None]:
    """Let one thread after another run the block, if that does not take too long.

    Waiting saves work and no more: two threads may compile the same code at once. So a thread that
    holds the compiler's lock does not wait, and others not forever: no deadlock comes of it.
    """
    taken = lock.acquire(timeout=0 if is_held() else MOST_SECONDS)
    try:
        yield
    finally:
        if taken:
            lock.release()


def is_held() -> bool:
    """Return whether this thread is compiling."""
    return COMPILING._is_owned()  # type: ignore[attr-defined, no-any-return]
