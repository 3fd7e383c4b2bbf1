"""The cost of the algebra of sizes: a cache of its results, and a count of its seconds.

SymPy is slow compared with the rest of the compiler, so its results are cached. The seconds of
uncached results are charged to the phase ``sympy`` (PyTorch 2 paper, section 5.2: "in the limit the
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
    """Cache each result; charge its seconds to ``sympy``. Arguments are hashed with their types."""

    @lru_cache(CACHED_RESULTS, typed=True)
    @functools.wraps(function)
    def timed(*arguments: Any) -> Any:
        with stages.phase(PHASE):
            return function(*arguments)

    return timed  # type: ignore[return-value]
