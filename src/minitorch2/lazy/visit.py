"""First visits of regions: the operators run in eager mode until the program comes by again.

    comes by again ::= a region is entered at a line where one was entered before
                    |  an instruction calls a function of PyTorch that it has called before

A program that runs once has nothing to gain from a record of it. So its first visit costs what the
function mode of the region costs, and it cannot be told from eager mode: it is eager mode.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from minitorch2.graph.user_lines import user_frame
from minitorch2.lazy.step import COUNTS
from minitorch2.native.torch_internals.modes import count_dispatch_modes

VISITED: Final[set[tuple[str, int]]] = set()
"""The files and lines at which regions were entered."""


class FirstVisit:
    """The first visit of a region; `ends` is asked before each function of PyTorch.

    Attributes:
        begin: begins to defer operators.
    """

    def __init__(self, begin: Callable[[], None]) -> None:
        self.begin = begin
        self._calls: set[tuple[int, ...]] = set()
        self._is_over = False
        self._thread = threading.get_ident()
        self._modes = count_dispatch_modes()
        COUNTS.first_visits += 1

    def ends(self, func: Any) -> bool:
        """Return whether operators are to be deferred, since the program has come by again.

        Modes are ended in the order in which they began, and each thread has its own. So operators
        are deferred no sooner than those modes have ended that the program has entered inside.
        """
        frame = user_frame()
        if frame is not None:
            call = id(func), id(frame.f_code), frame.f_lasti
            self._is_over = self._is_over or call in self._calls
            self._calls.add(call)
        return (
            self._is_over
            and self._thread == threading.get_ident()
            and self._modes == count_dispatch_modes()
        )


def first_visit(begin: Callable[[], None]) -> FirstVisit | None:
    """Return the first visit of the region that the program enters now; None if it was here."""
    frame = user_frame()
    if frame is None:
        return None
    place = frame.f_code.co_filename, frame.f_lineno
    if place in VISITED:
        return None
    VISITED.add(place)
    return FirstVisit(begin)
