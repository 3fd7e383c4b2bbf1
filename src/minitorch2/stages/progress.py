"""Progress of a compilation: a notice while it runs if it takes long, and a line in the log at the
end.

    I minitorch2.stages.progress: [0/0] f: 1 graph, 4 kernels, 2.1 s
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from time import perf_counter

from minitorch2 import config, stages
from minitorch2.errors import MinitorchWarning
from minitorch2.foundation import profiling
from minitorch2.logs import get_logger

_LOGGER = get_logger(__name__)
_IS_WATCHED: ContextVar[bool] = ContextVar("is_watched", default=False)
_COUNTED = {"graphs": "graph", "graph_breaks": "graph break", "kernels": "kernel"}


@contextmanager
def reported(name: str) -> Iterator[None]:
    """Log the outcome of compiling `name` inside the block; failures are reported elsewhere."""
    start = perf_counter()
    with stages.collect(texts=False) as log, _noticed(name), profiling.compiling(name):
        yield
    _LOGGER.info("%s: %s%.1f s", name, _counts(log.counts), perf_counter() - start)


def _counts(counts: Mapping[str, int]) -> str:
    named = [(counts.get(name, 0), noun) for name, noun in _COUNTED.items()]
    return "".join(f"{n} {noun}{'s' * (n != 1)}, " for n, noun in named if n)


@contextmanager
def _noticed(name: str) -> Iterator[None]:
    """Show a notice if the block takes longer than the option `notice_seconds`."""
    seconds = config.current().notice_seconds
    if not seconds or _IS_WATCHED.get():
        yield
        return
    timer = threading.Timer(seconds, _notice, (name, seconds))
    timer.daemon = True
    token = _IS_WATCHED.set(True)
    try:
        timer.start()
        yield
    finally:
        timer.cancel()
        _IS_WATCHED.reset(token)


def _notice(name: str, seconds: float) -> None:
    message = (
        f"still compiling {name} after {seconds:g} seconds. Later calls use what is compiled, and "
        "later processes find its kernels in the cache"
    )
    _LOGGER.warning(message)
    with suppress(MinitorchWarning):  # where warnings are errors, they are not this thread's
        warnings.warn(message, MinitorchWarning, stacklevel=1)
