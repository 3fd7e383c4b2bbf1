"""The work of a function, counted and not timed: a count is the same on every machine."""

import sys
from collections.abc import Callable
from typing import Any


def python_calls(function: Callable[[], Any]) -> int:
    """Return how many Python functions a function calls, all the way down."""
    count = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count
