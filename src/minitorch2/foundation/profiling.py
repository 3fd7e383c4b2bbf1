"""Named ranges in profiles of `torch.profiler`; without a profile, each range costs a look at a
flag.

with torch.profiler.profile() as profile:
    compiled(x)
print(profile.key_averages().table())       # "minitorch2: f", "fused_sin_cos_0", ...
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any, Final, TypeVar

from torch.autograd import profiler

R = TypeVar("R")
PROFILER: Final = profiler
"""The module whose flag `_is_profiler_enabled` says whether somebody profiles this process."""
COMPILING: Final = "minitorch2 compiles: "
"""How the names of ranges around compilations begin."""
GRAPH: Final = "minitorch2 graph: "
"""How the names of ranges of compiled graphs begin; the name of the program follows."""
OFF: Final = SimpleNamespace(_is_profiler_enabled=False)
"""In the place of `PROFILER`, for code that need not ask."""


def is_on() -> bool:
    """Return whether a profile of this process is being recorded."""
    return PROFILER._is_profiler_enabled


def compiling(name: str) -> AbstractContextManager[object]:
    """Return a range around a compilation; outside of profiles it does nothing."""
    return PROFILER.record_function(f"{COMPILING}{name}") if is_on() else nullcontext()


def ranged(name: str, run: Callable[..., R]) -> Callable[..., R]:
    """Return the same function; a profile shows its calls under this name."""

    def in_range(*args: Any) -> R:
        with PROFILER.record_function(name):
            return run(*args)

    return in_range
