"""The state of a recorder inside one compilation: the keys that are known, and their makers.

An origin is a key of the same compilation. A pass may have replaced the thing that a row was made
from. Then the row's origin is the user's line, which nodes keep.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import CodeType

from minitorch2.autograd.runtime import LazilyCompiled
from minitorch2.explorer.steps import Place, StepRecorder
from minitorch2.explorer.store import Compilation, Pane, Row, Store
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node, SourceLine
from minitorch2.loopir.schedule import Schedule

PART = "minitorch2.explorer: part"
"""The key in a node's meta that names the graph it belongs to: "forward" or "backward"."""
INPUT = "minitorch2.explorer: input"
"""The key in an input's meta that names the row of the captured graph's input that it is."""
JOINT = "minitorch2.explorer: joint"
"""The key in a node's meta that names the node of the joint graph it is a copy of."""

Rest = tuple[CodeType, str, str]
"""A continuation: its code, the id of the compilation that broke, and its name."""


@dataclass
class Making:
    """One compilation while it is recorded.

    Attributes:
        lines: the user's lines that origins speak of: file and number.
        part: the graph whose loops are being made, ``"forward"`` or ``"backward"``.
        blocks: the number of inner graphs so far.
        joint: the joint graph with its text, until the cut is known.
        plan: the schedule of the loops that are being made.
        backward: the backward graph that is compiled when it first runs, if it has not.
        rests: the continuations of all compilations, by the identity of their code.
    """

    store: Store
    compilation: Compilation
    steps: StepRecorder
    lines: set[tuple[str, int]] = field(default_factory=set)
    part: str = "forward"
    blocks: int = 0
    joint: tuple[str, GraphModule] | None = None
    plan: Schedule | None = None
    backward: LazilyCompiled | None = None
    rests: dict[int, Rest] = field(default_factory=dict)
    _keys: set[str] = field(default_factory=set)

    def show(self, pane: Pane) -> None:
        """Add a pane in the place of one of the same kind."""
        self.compilation.panes = [p for p in self.compilation.panes if p.kind != pane.kind]
        self.compilation.panes.append(pane)
        self._keys.update(row.key for row in pane.rows if row.key)

    def line(self, source: SourceLine | None) -> tuple[str, ...]:
        """Return the key of a user's line as origins; none for None."""
        return () if source is None else (self.line_key(source.file, source.line),)

    def line_key(self, file: str, number: int) -> str:
        """Return the key of a line, which will have a row."""
        self.lines.add((file, number))
        return f"s{self.store.file(file)}:{number}"

    def instruction(self, place: Place | None, line: SourceLine | None) -> tuple[str, ...]:
        """Return an instruction as origins; the user's line if no step was recorded."""
        return self.line(line) if place is None else (f"i{place[0]}:{place[1]}",)

    def origins(self, keys: Iterable[str], line: SourceLine | None) -> tuple[str, ...]:
        """Return those keys that have rows; the user's line if there are none."""
        known = tuple(dict.fromkeys(key for key in keys if key in self._keys))
        return known or self.line(line)

    def origins_of(self, node: Node, *keys: str) -> tuple[str, ...]:
        """Return the origins of a node: these keys, or the captured node, or the user's line."""
        source: SourceLine | None = node.meta.get("source")
        captured = () if source is None or not source.node else (f"graph:{source.node}",)
        return self.origins([key for key in keys if key in self._keys] or captured, source)


_COMMENT = re.compile(r"# File: (.*):(\d+), code: ")


def named_line(making: Making, text: str) -> tuple[str, ...]:
    """Return the user's line that a comment of a generated text names, as origins.

    `graph.node.SourceLine.comment` has written it.
    """
    found = _COMMENT.match(text.lstrip())
    return () if found is None else (making.line_key(found[1], int(found[2])),)


def plain_rows(text: str) -> Iterable[Row]:
    """Return the lines of a text as rows without provenance."""
    return map(Row, text.rstrip("\n").split("\n"))
