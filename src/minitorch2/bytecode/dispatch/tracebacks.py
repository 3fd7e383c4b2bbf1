"""Tracebacks of the user's exceptions, without the frames of the compiler.

CPython adds an entry to a traceback for each frame that an exception leaves. Residual code stands
in the user's file at the user's line, so its entries are right as they are; the entries between
them are ours. When an exception leaves compiled code, `hide_frames` takes our entries out, also the
entry of the frame that calls it: re-raising with a bare ``raise`` adds no entry. A call that raises
nothing pays nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, TracebackType

from minitorch2 import config
from minitorch2.bytecode.frames.callers import CONTINUING, is_own
from minitorch2.errors import MinitorchError

_COMPILING: set[CodeType] = set()


def compiles(code: CodeType) -> None:
    """Say that this code compiles: errors below it are not exceptions of the user's program."""
    _COMPILING.add(code)


def hide_frames(error: BaseException) -> None:
    """Take the compiler's frames out of an exception's traceback.

    A function that broke into parts is one entry: the entry of the part which raised. Errors that
    come up while compiling keep all their frames, unless they are this package's own, which name
    the user's line themselves. With `config.verbose_tracebacks` nothing is hidden.
    """
    entries = list(_entries(error.__traceback__))
    is_internal = any(entry.tb_frame.f_code in _COMPILING for entry in entries)
    if config.current().verbose_tracebacks or (
        is_internal and not isinstance(error, MinitorchError)
    ):
        return
    kept: list[TracebackType] = []
    for entry in entries:
        code = entry.tb_frame.f_code
        if code in CONTINUING and kept:
            kept.pop()
        if not is_own(code):
            kept.append(entry)
    error.__traceback__ = _linked(kept)


def _entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _linked(entries: list[TracebackType]) -> TracebackType | None:
    """Return the entries, each followed by the next; an entry that is right already is kept."""
    following: TracebackType | None = None
    for entry in reversed(entries):
        if entry.tb_next is not following:
            entry = TracebackType(following, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
        following = entry
    return following
