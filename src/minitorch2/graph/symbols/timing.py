"""How many seconds the algebra of sizes costs.

SymPy is slow beside the rest of the compiler, so what it computes is cached, and the seconds of
what is not are charged to the phase ``sympy`` (PyTorch 2 paper, section 5.2: "in the limit the
shape expressions may be quite complicated").
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeVar

from minitorch2 import stages

Function = TypeVar("Function", bound=Callable[..., Any])

PHASE: Final = "sympy"
CACHED_RESULTS: Final = 65_536


def cached_algebra(function: Function) -> Function:
    """Compute each result once, on SymPy's account. Arguments are hashed with their types."""

    @lru_cache(CACHED_RESULTS, typed=True)
    @functools.wraps(function)
    def timed(*arguments: Any) -> Any:
        with stages.phase(PHASE):
            return function(*arguments)

    return timed  # type: ignore[return-value]
