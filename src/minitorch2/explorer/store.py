"""The record of compilations: panes of rows, and the provenance of each row.

    store       ::= Store(compilations, files)
    compilation ::= Compilation(id, function, place, panes, breaks, steps, seconds)
    pane        ::= Pane(kind, title, rows, drawing, fusion)       one column of the page
    row         ::= Row(text, key, origins, mark)                  one line of a pane
    drawing     ::= Drawing(boxes, edges, cut)                     a graph, to be laid out
    fusion      ::= Fusion(nodes, reasons)                         a schedule that answers questions
    key         ::= "s" file ":" line | "i" code ":" index | pane kind ":" name

A row has a key if something may come from it. `origins` are the keys that it comes from: each was
recorded where the compiler made one thing out of another. Rows without a key or an origin explain
the others. Keys of different compilations are independent of each other.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

VERSION = 1
"""The version of the records' form; a reader refuses a later one."""


@dataclass(frozen=True)
class Row:
    """One line of a pane.

    Attributes:
        text: the line.
        key: its name, to which origins refer; "" if nothing comes from it.
        origins: the keys that it comes from.
        mark: a property that the page shows, such as ``"saved"`` or ``"break"``.
    """

    text: str
    key: str = ""
    origins: tuple[str, ...] = ()
    mark: str = ""


@dataclass(frozen=True)
class Box:
    """A node of a drawing; `side` is 1 behind the cut, and 0 before it."""

    key: str
    label: str
    detail: str = ""
    mark: str = ""
    side: int = 0


@dataclass(frozen=True)
class Drawing:
    """A directed graph; an edge is (from, to, label), with positions in `boxes`.

    `cut` says what crosses from side 0 to side 1; it is empty where nothing is cut.
    """

    boxes: tuple[Box, ...]
    edges: tuple[tuple[int, int, str], ...]
    cut: str = ""


@dataclass(frozen=True)
class ScheduledNode:
    """One node of a schedule.

    Attributes:
        name: of the node, which is made of the names of its buffers.
        kind: ``"kernel"``, ``"library call"`` or ``"result"`` (of a library call).
        members: the buffers that it computes.
        reads: the buffers that it reads.
        loops: the sizes of its loops, as text.
    """

    name: str
    kind: str
    members: tuple[str, ...]
    reads: tuple[str, ...]
    loops: str = ""


@dataclass(frozen=True)
class Fusion:
    """A schedule: its nodes, and for pairs of them the reason why they are two.

    A reason is (position of one node, position of a later one, text).
    """

    nodes: tuple[ScheduledNode, ...]
    reasons: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True)
class Pane:
    """One column of the page: all that one stage has to show."""

    kind: str
    title: str
    rows: tuple[Row, ...]
    drawing: Drawing | None = None
    fusion: Fusion | None = None


@dataclass(frozen=True)
class Break:
    """A graph break: `graph_breaks.md` lists the codes."""

    code: str
    cause: str
    fix: str
    place: str
    stack: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """The state of the symbolic evaluator in front of one instruction, as a change of a frame's.

    Attributes:
        frame: number of the frame: 0 is the captured one, others are inlined.
        code: number of the frame's code.
        index: position of the instruction in the code.
        keep: how many values of the frame's stack stay, counted from the bottom.
        push: the texts of those above, as positions in `Steps.texts`.
        locals: the local variables that changed, by name, as positions in `Steps.texts`.
        guards: the number of guards so far.
        nodes: the number of graph nodes so far.
    """

    frame: int
    code: int
    index: int
    keep: int
    push: tuple[int, ...]
    locals: dict[str, int]
    guards: int
    nodes: int


@dataclass(frozen=True)
class Steps:
    """All steps of the last attempt at a frame.

    `parents` gives for each frame the frame that called it, -1 for none; `codes` the name of each
    code; `guards` the text of each guard in the order of discovery. `end` says how it ended.
    `left_out` counts the steps behind the last that was kept.
    """

    texts: tuple[str, ...]
    codes: tuple[str, ...]
    parents: tuple[int, ...]
    steps: tuple[Step, ...]
    guards: tuple[str, ...]
    end: str = ""
    left_out: int = 0


@dataclass
class Compilation:
    """Everything that is known of one compilation of a frame.

    Attributes:
        id: frame and entry, such as ``"0/1"``.
        function: qualified name of the captured function.
        place: its file and first line.
        panes: the columns, in the order in which the stages happened.
        breaks: the graph break, if there was one.
        continuations: names of the functions that go on behind it.
        resumes: the continuation that this is: id of the compilation that broke, and name.
        operators: the number of operators in the captured graph.
        callers: the user's calls that led to it, the outermost first.
        seconds: the time of each phase, without the phases inside it.
    """

    id: str
    function: str = ""
    place: str = ""
    panes: list[Pane] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)
    continuations: list[str] = field(default_factory=list)
    resumes: tuple[str, str] | None = None
    operators: int = 0
    callers: tuple[str, ...] = ()
    steps: Steps | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def pane(self, kind: str) -> Pane | None:
        """Return the pane of this kind, or None."""
        return next((pane for pane in self.panes if pane.kind == kind), None)


@dataclass
class Store:
    """All compilations that a recorder has seen.

    Attributes:
        files: those that keys speak of.
        as_is: the functions that run in Python, and why.
        report: lines that the page shows above all.
    """

    compilations: dict[str, Compilation] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    as_is: dict[str, Break] = field(default_factory=dict)
    report: list[str] = field(default_factory=list)

    def at(self, identity: str) -> Compilation:
        """Return the compilation with this id, which is made if there is none."""
        return self.compilations.setdefault(identity, Compilation(identity))

    def file(self, name: str) -> int:
        """Return the number of a file in keys."""
        if name not in self.files:
            self.files.append(name)
        return self.files.index(name)

    def as_data(self) -> dict[str, Any]:
        """Return the store as what JSON can hold; rows and steps are lists, to keep it small."""
        return {
            "version": VERSION,
            "files": self.files,
            "as_is": {name: asdict(each) for name, each in self.as_is.items()},
            "report": self.report,
            "compilations": [compilation_data(each) for each in self.compilations.values()],
        }


def compilation_data(compilation: Compilation) -> dict[str, Any]:
    """Return a compilation as what JSON can hold."""
    data = asdict(replace(compilation, panes=[], steps=None))  # both are long, and have own forms
    data["panes"] = [pane_data(pane) for pane in compilation.panes]
    if (steps := compilation.steps) is not None:
        known = asdict(replace(steps, steps=()))
        data["steps"] = known | {"steps": [_step_data(step) for step in steps.steps]}
    return data


def pane_data(pane: Pane) -> dict[str, Any]:
    """Return a pane as what JSON can hold: each row is [text, key, origins, mark]."""
    rows = [[row.text, row.key, list(row.origins), row.mark] for row in pane.rows]
    data: dict[str, Any] = {"kind": pane.kind, "title": pane.title, "rows": rows}
    if pane.drawing is not None:
        data["drawing"] = asdict(pane.drawing)
    if pane.fusion is not None:
        data["fusion"] = asdict(pane.fusion)
    return data


def _step_data(step: Step) -> list[Any]:
    return [
        step.frame, step.code, step.index, step.keep, list(step.push), step.locals, step.guards,
        step.nodes,
    ]  # fmt: skip


def compilation_of(data: dict[str, Any]) -> Compilation:
    """Return the compilation that `compilation_data` has written, without steps."""
    known = {name: data[name] for name in ("id", "function", "place", "continuations", "operators")}
    resumes = data["resumes"] and tuple(data["resumes"])
    breaks = [Break(**{**each, "stack": tuple(each["stack"])}) for each in data["breaks"]]
    panes = [pane_of(each) for each in data["panes"]]
    return Compilation(
        **known, resumes=resumes, breaks=breaks, panes=panes, seconds=data["seconds"],
        callers=tuple(data.get("callers", ())),
    )  # fmt: skip


def pane_of(data: dict[str, Any]) -> Pane:
    """Return the pane that `pane_data` has written, without its schedule."""
    rows = (Row(text, key, tuple(origins), mark) for text, key, origins, mark in data["rows"])
    drawn = data.get("drawing")
    drawing = None if drawn is None else drawing_of(drawn)
    return Pane(data["kind"], data["title"], tuple(rows), drawing)


def drawing_of(data: dict[str, Any]) -> Drawing:
    """Return a drawing from its data."""
    edges = ((start, end, label) for start, end, label in data["edges"])
    return Drawing(tuple(Box(**box) for box in data["boxes"]), tuple(edges), data["cut"])
