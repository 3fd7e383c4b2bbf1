"""The journal of one rank: what it has compiled, event by event, so that ranks can be compared."""

from __future__ import annotations

import contextlib
import faulthandler
import linecache
import re
import tempfile
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import torch

from minitorch2.cache.keys import digest_of
from minitorch2.stages import Stage, StageLog

GRAPH, BREAK, RECOMPILE = "captured_graph.py", "graph_break", "recompile"
_VARYING = re.compile(r"[ \t]*#.*|(?<![\w.])\d+(?:\.\d*)?(?:e[+-]?\d+)?")
"""Comments, which have sizes, and numbers: ranks have their own, such as where their rows begin."""
_FRAME = re.compile(r'File "([^"]+)", line (\d+) in')
_OURS = (f"{Path(torch.__file__).parent}/", f"{Path(__file__).parents[1]}/", contextlib.__file__)


class Journal(StageLog):
    """A log that keeps one line for each graph, graph break and recompilation."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[str] = []

    def takes(self, name: str) -> bool:
        """Return whether the journal has events of this name."""
        return name in (GRAPH, BREAK, RECOMPILE)

    def add(self, stage: Stage, subject: object = None) -> None:
        """Note an event; the texts of graphs become digests of their operators."""
        if stage.name == GRAPH:
            self.events.append(f"a graph ({digest_of(_VARYING.sub('', stage.text))[:8]})")
        elif stage.name == BREAK:
            line, _, rest = stage.text.partition("\n")
            self.events.append(f"a graph break at {line}: {rest.partition(chr(10))[0].strip()}")
        elif stage.name == RECOMPILE:
            self.events.append(f"a recompilation: {stage.text.partition(chr(10))[0]}")


def first_difference(journals: Sequence[Sequence[str]]) -> int | None:
    """Return the number of the first event in which journals differ; None if they are equal."""
    events = enumerate(zip_longest(*journals))
    return next((number for number, found in events if len(set(found)) > 1), None)


def place_of(thread: int) -> str:
    """Return the line where a thread is: the innermost one outside of PyTorch and this compiler."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        _, _, rest = file.read().partition(f"hread 0x{thread:016x} ")
    for path, number in _FRAME.findall(rest.partition("\n\n")[0]):
        if not path.startswith(_OURS):
            return f"{path}:{number}, code: {linecache.getline(path, int(number)).strip()}"
    return "a line that is not known"
