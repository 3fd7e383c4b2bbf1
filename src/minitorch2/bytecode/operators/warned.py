"""Warnings of captured code: the functions that issue them, and the test for an error.

A warning belongs to a line: the line of the code which warns, or, by ``stacklevel``, a caller's.
Code inside of the captured frame is known while capturing; callers of the frame are looked up when
residual code runs.
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Any

from minitorch2.bytecode.frames.callers import user_frames
from minitorch2.bytecode.polyfills.warning import matches

Namespace = dict[str, Any]


def warn_at(
    namespace: Namespace, file: str, line: int, message: Any, category: Any, source: Any
) -> None:
    """Issue a warning for a line of code whose globals are `namespace`."""
    registry = namespace.setdefault("__warningregistry__", {})
    module = namespace.get("__name__") or "<string>"
    warnings.warn_explicit(message, category, file, line, module, registry, None, source)


def warn_above(levels: int, message: Any, category: Any, source: Any) -> None:
    """Issue a warning for the line at which the calling function was called, or one further up.

    Args:
        levels: how many calls to go up, at least 1. Past the outermost there is no line.
    """
    frames = list(user_frames(sys._getframe(1)))
    if levels >= len(frames):
        warnings.warn(message, category, sys.maxsize, source)
        return
    frame: FrameType = frames[levels]
    place = frame.f_code.co_filename, frame.f_lineno
    warn_at(frame.f_globals, *place, message, category, source)


def action_of(
    text: str, category: type[Warning], module: str | None, line: int | None
) -> str | None:
    """Return the action of the filters in force for a warning.

    Args:
        module: the module of the line; None if it is not known, and neither is `line`.

    Returns:
        The action, or None if it depends on the place that is not known.
    """
    for action, message, kind, place, number in warnings.filters:
        if not issubclass(category, kind) or not matches(message, text):
            continue
        if module is None and (place is not None or number):
            return None
        if module is None or (matches(place, module) and number in (0, line)):
            return action
    return warnings.defaultaction  # type: ignore[attr-defined,no-any-return]
