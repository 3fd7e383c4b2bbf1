"""The other ways to run a function: its operators deferred, its source or a call made a script.

    frontend ::= Frontend(blame, calls, switches, run)

Both remember earlier calls: a lazy step is compiled when it comes again, and a script is optimized
for what its first runs saw. So each of several calls is compared with eager PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Final

import torch

from minitorch2 import config
from minitorch2.errors import ConfigError
from minitorch2.explorer.bisection.outcomes import copies_of
from minitorch2.explorer.bisection.statements import Source
from minitorch2.lazy import lazily, reset, to_eager
from minitorch2.native.torch_internals.pytree import tree_map_only
from minitorch2.script.api import CompilationUnit, script, trace

NEVER: Final = 1 << 30
"""A number of runs that no program reaches."""


@dataclass(frozen=True)
class Frontend:
    """A way to run a function that is not `compile`.

    Attributes:
        blame: the floor, if the function is wrong.
        calls: the number of calls after which nothing new is compiled.
        switches: the value of each option that takes a part of the floor away.
        run: a function that does what the given one does, in this way.
    """

    blame: str
    calls: int
    switches: Mapping[str, config.Value]
    run: Callable[[FunctionType], Callable[..., Any]]


def deferred(function: FunctionType) -> Callable[..., Any]:
    """Return the function with its operators deferred; steps of earlier trials are forgotten."""
    reset()

    def run(*args: Any) -> Any:
        with lazily(eager_first=False):
            result = function(*args)
        return tree_map_only(torch.Tensor, to_eager, result)  # a comparison is no step of its own

    return run


def traced(function: FunctionType) -> Callable[..., Any]:
    """Return the function as a script of what it does at its first call."""
    made: list[Callable[..., Any]] = []

    def run(*args: Any) -> Any:
        if not made:
            made.append(trace(function, tuple(copies_of(args)), check_trace=False))
        return made[0](*args)

    return run


def read(function: FunctionType) -> Callable[..., Any]:
    """Return the function of its text alone, which our parser reads instead of Python's."""
    source = Source.of(function)
    if source is None:
        raise ConfigError(f"{function} has no text to read", code="no-source")
    found: Callable[..., Any] = getattr(CompilationUnit(source.text), function.__name__)
    return found


_SCRIPT_SWITCHES: Final[Mapping[str, config.Value]] = {
    "script_profiled_runs": NEVER, "script_numba": False, "script_smallest_region": NEVER,
    "backend": "eager",
}  # fmt: skip
FRONTENDS: Final[Mapping[str, Frontend]] = {
    "lazy": Frontend(
        "lazy: the function whose operators are deferred is not what it computes at once", 4,
        {"lazy_compile_after": NEVER, "lazy_most_operators": 1, "backend": "eager"}, deferred,
    ),
    "script": Frontend(
        "script: the script of the function is not what Python computes", 4,
        _SCRIPT_SWITCHES, script,
    ),
    "text": Frontend(
        "script: the text of the function is not what Python computes", 4, _SCRIPT_SWITCHES, read
    ),
    "trace": Frontend(
        "script: what was traced of the function is not what Python computes", 4,
        _SCRIPT_SWITCHES, traced,
    ),
}  # fmt: skip
"""By the name that `minitorch2.bisect` takes."""


def named(name: str) -> Frontend | None:
    """Return a frontend by its name; None for `compile`.

    Raises:
        ConfigError: there is none of that name.
    """
    if name != "compile" and name not in FRONTENDS:
        known = ", ".join(["compile", *FRONTENDS])
        raise ConfigError(f"no frontend is called {name!r}: {known}", code="unknown-option")
    return FRONTENDS.get(name)
