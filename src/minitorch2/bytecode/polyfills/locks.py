"""Locks that captured code makes: no other thread can have one before the function returns it."""

from __future__ import annotations


class Lock:
    """``threading.Lock()``"""

    STAYS_INSIDE = True
    held = 0
    most = 1

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; a thread that waits for itself would wait for ever."""
        if self.held < self.most:
            self.held += 1
            return True
        if blocking and timeout < 0:
            raise RuntimeError("a thread waits for a lock that it holds itself")
        return False

    __enter__ = acquire

    def release(self) -> None:
        """Give the lock back."""
        if not self.held:
            raise RuntimeError("release unlocked lock")
        self.held -= 1

    def __exit__(self, *error: object) -> None:
        self.release()

    def locked(self) -> bool:
        """Return whether the lock is held."""
        return self.held > 0


class ReentrantLock(Lock):
    """``threading.RLock()``"""

    most = 2**32

    def release(self) -> None:
        """Give the lock back once."""
        if not self.held:
            raise RuntimeError("cannot release un-acquired lock")
        self.held -= 1
