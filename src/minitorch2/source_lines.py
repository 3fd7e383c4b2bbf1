"""Text of generated code: debuggers, tracebacks and `inspect.getsource` find it in `linecache`."""

from __future__ import annotations

import linecache
import weakref
from collections import Counter

from minitorch2.compile_lock import new_lock

_OWNERS: Counter[str] = Counter()
"""How many living objects stand for each file's text."""
_LOCK = new_lock()


def keep_lines(file: str, text: str, owner: object) -> None:
    """Let `linecache` have the text of a file for as long as `owner` lives.

    Where several owners have one file, and then one text, the last one counts.
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
            linecache.cache.pop(file, None)
