"""Cautions for the user where nothing failed: each is a Python warning and a line in the log."""

from __future__ import annotations

import logging
import sys
import warnings
from functools import cache
from types import FrameType

from minitorch2.errors import MinitorchWarning

_INSIDE = ("minitorch2", "torch", "importlib")


def caution(logger: logging.Logger, message: str) -> None:
    """Log a warning and raise a `MinitorchWarning` that points to the user's own line.

    Callers make sure that the same caution is raised once for each site or function.
    """
    logger.warning(message)
    warnings.warn(message, MinitorchWarning, stacklevel=_stacklevel_of_user())


@cache
def caution_once(logger: logging.Logger, message: str) -> None:
    """Say it only the first time that this message is given."""
    caution(logger, message)


def _stacklevel_of_user() -> int:
    """Return how many frames above `caution` the nearest line lies outside this package and
    PyTorch.

    Frames of the import system do not count: `warnings` leaves them out itself.
    """
    level, frame = 1, sys._getframe(1)
    while _is_inside(frame) and frame.f_back is not None:
        frame = frame.f_back
        file = frame.f_code.co_filename
        level += not ("importlib" in file and "_bootstrap" in file)
    return level


def _is_inside(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    generated = frame.f_code.co_filename.startswith("<minitorch2")
    return generated or module.split(".")[0] in _INSIDE
