"""Text of generated code: debuggers, tracebacks and `inspect.getsource` find it in `linecache`."""

from __future__ import annotations

import linecache
import sys
import weakref
from collections import Counter

from minitorch2.foundation.compile_lock import new_lock

_OWNERS: Counter[str] = Counter()
"""How many living objects stand for each file's text."""
_DEAD: list[str] = []
"""Files whose owners have died, and whose text is still there."""
_LOCK = new_lock()


def keep_lines(file: str, text: str, owner: object) -> None:
    """Let `linecache` have the text of a file for as long as `owner` lives.

    Several owners may share one file. The text of the latest owner replaces that of the earlier
    ones.
    """
    with _LOCK:
        _OWNERS[file] += 1
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    weakref.finalize(owner, _forget, file).atexit = False


def _forget(file: str) -> None:
    with _LOCK:
        _OWNERS[file] -= 1
        if _OWNERS[file] <= 0:
            del _OWNERS[file]
            _DEAD.append(file)
        while _DEAD and not _is_checking():
            linecache.cache.pop(_DEAD.pop(), None)


def _is_checking() -> bool:
    """Return whether `linecache` is walking through its files at this moment.

    Owners may die at any time, and `linecache.checkcache` would raise KeyError for a removed file.
    """
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code is not linecache.checkcache.__code__:
        frame = frame.f_back
    return frame.f_code is linecache.checkcache.__code__
