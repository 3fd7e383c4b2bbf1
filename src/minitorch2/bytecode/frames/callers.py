"""The user's frames among those that run: the compiler's own, and those of parts, left out."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FrameType

from minitorch2.bytecode.frames.skip_files import PACKAGE
from minitorch2.foundation.generated_code import PREFIX

CONTINUING: set[CodeType] = set()
"""Code that goes on with a function whose first part is its caller."""


def continues(code: CodeType) -> None:
    """Say that this code goes on with a function whose first part is its caller."""
    CONTINUING.add(code)


def is_own(code: CodeType) -> bool:
    """Return whether code is this package's, or was written by it."""
    return code.co_filename.startswith((PACKAGE, PREFIX))


def user_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the user's frames from this one outwards; parts of a function are one frame."""
    is_part = False
    while frame is not None:
        if frame.f_code in CONTINUING:
            is_part = True
        elif not is_own(frame.f_code):
            if not is_part:
                yield frame
            is_part = False
        frame = frame.f_back
