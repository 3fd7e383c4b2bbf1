"""The user's line that is running: outside of PyTorch and of this package."""

from __future__ import annotations

import contextlib
import linecache
import sys
from pathlib import Path
from types import FrameType

import torch

from minitorch2.graph.node import SourceLine

_TORCH = str(Path(torch.__file__).parent)
_HERE = str(Path(__file__).parents[1])
_LIBRARIES = (_TORCH, _HERE, contextlib.__file__, "<frozen")


def user_frame() -> FrameType | None:
    """Return the innermost frame of the program; None if only libraries run (in a thread, say)."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
        frame = frame.f_back
    return frame


def user_line() -> SourceLine | None:
    """Return the innermost line of the program; None if only libraries run."""
    frame = user_frame()
    if frame is None:
        return None
    code, line = frame.f_code, frame.f_lineno
    text = linecache.getline(code.co_filename, line).strip()
    return SourceLine(code.co_filename, line, text, code.co_qualname)
