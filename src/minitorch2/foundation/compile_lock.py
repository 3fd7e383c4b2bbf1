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
from contextlib import AbstractContextManager
from typing import ClassVar

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


class AsBefore(AbstractContextManager[object]):
    """Context manager: restores the count of a lock that a thread holds, and the collector.

    After the block this thread holds the lock as often as before it. Unless it still compiles,
    young garbage is collected, and so is all garbage that `put_garbage_off` has put off, be it by
    another thread.

    An interruption may hit the call that leaves the block, before anything is restored. Enter two
    of these, one in the other: one interruption hits one of them. This is not a generator: an
    interrupted generator would go on, and restore the lock, when it is collected.
    """

    is_put_off: ClassVar[bool] = False
    """Whether the compiler has switched the collector off. Threads set this after they switch it
    off, and clear it before they switch it on: so none finds it off and leaves it so."""

    def __init__(self, lock: threading.RLock = COMPILING) -> None:
        self.lock = lock
        self.before = _depth(lock)
        self.collects = gc.isenabled()

    def __exit__(self, *_: object) -> None:
        """Take or release the lock until the count is the old one; collect what was put off."""
        while _depth(self.lock) > self.before:
            self.lock.release()
        if self.before and not _depth(self.lock):
            held = (self.before, threading.get_ident())
            self.lock._acquire_restore(held)  # type: ignore[attr-defined]
        if is_held():
            return
        if self.collects or AsBefore.is_put_off:
            AsBefore.is_put_off = False
            gc.enable()
        gc.collect(0)


def _depth(lock: threading.RLock) -> int:
    """Return how often this thread holds the lock."""
    return lock._recursion_count()  # type: ignore[attr-defined, no-any-return]


def let_others_compile() -> None:
    """Release the compiler's lock until the end of `AsBefore`, however often it is held."""
    if is_held():
        COMPILING._release_save()  # type: ignore[attr-defined]  # as threading.Condition does


def put_garbage_off() -> None:
    """Collect no cyclic garbage until the end of `AsBefore`: its cycles hold the user's arguments.

    Nearly all objects that a compilation makes stay alive. Each full collection would visit all
    objects of the process and free none of them, which took a fifth of the time to compile a large
    model.
    """
    if gc.isenabled():
        gc.disable()
        AsBefore.is_put_off = True


MOST_SECONDS = 60.0
"""How long a thread waits for another one that compiles the same code."""


def take_turn(lock: threading.RLock) -> None:
    """Wait until no other thread holds the lock, if that does not take too long, and take it.

    Waiting saves work and no more: two threads may compile the same code at once. So a thread that
    holds the compiler's lock does not wait, and others not forever: no deadlock comes of it.
    """
    lock.acquire(timeout=0 if is_held() else MOST_SECONDS)


def is_held() -> bool:
    """Return whether this thread is compiling."""
    return COMPILING._is_owned()  # type: ignore[attr-defined, no-any-return]
