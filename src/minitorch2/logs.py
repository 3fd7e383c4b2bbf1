"""Loggers under `minitorch2.*`, silent until somebody asks.

The library never prints. It logs to `get_logger(__name__)`; an application configures those
loggers as any others, or asks for output with one line or one environment variable:

    minitorch2.logs.set_logs("+bytecode,loopir,-codegen")     # or MINITORCH2_LOGS=+bytecode,loopir

Grammar of the text: a comma-separated list of package names; `+name` shows everything, `name`
shows what happens, `-name` shows errors only; `all` is the whole library.
"""

from __future__ import annotations

import logging
import os

ROOT = "minitorch2"
ENVIRONMENT_VARIABLE = "MINITORCH2_LOGS"
_LEVEL_OF_PREFIX = {"+": logging.DEBUG, "-": logging.ERROR}
_FORMAT = "%(levelname).1s %(name)s: %(message)s"

logging.getLogger(ROOT).addHandler(logging.NullHandler())


def get_logger(name: str) -> logging.Logger:
    """The logger of a module of minitorch2: call it with `__name__`."""
    return logging.getLogger(name if name.split(".")[0] == ROOT else f"{ROOT}.{name}")


def set_logs(wanted: str) -> None:
    """Show log records on standard error, as the grammar above says.

    Each named logger gets a level, and the library's root one handler; the application's own
    root logger is left alone.
    """
    for item in filter(None, (part.strip() for part in wanted.split(","))):
        name = item.lstrip("+-")
        level = _LEVEL_OF_PREFIX.get(item[0], logging.INFO)
        get_logger(ROOT if name == "all" else name).setLevel(level)
    _show()


def _show() -> None:
    root = logging.getLogger(ROOT)
    if not any(type(handler) is logging.StreamHandler for handler in root.handlers):
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(_FORMAT))
        root.addHandler(handler)


if ENVIRONMENT_VARIABLE in os.environ:
    set_logs(os.environ[ENVIRONMENT_VARIABLE])
