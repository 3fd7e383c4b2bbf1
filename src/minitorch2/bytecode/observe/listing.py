"""The user's source, line by line: captured into which graph, broken, or run in Python."""

from __future__ import annotations

import html
import inspect
import linecache
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import CodeType

from minitorch2.bytecode.compiling.compiled_frame import CompiledFrame, GraphBreak
from minitorch2.bytecode.frames.skip_files import is_skipped_file

COLOURS = {"captured": "green", "break": "yellow", "python": "red", "not reached": "bright_black"}
"""The colour of each state of a line."""


@dataclass(frozen=True)
class ListedLine:
    """One line of the user's source.

    Attributes:
        number: its number in its file.
        text: its text without the line's end.
        state: a key of `COLOURS`.
        graphs: numbers of the graphs that hold operators of the line.
    """

    number: int
    text: str
    state: str
    graphs: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """The text that stands beside the line."""
        graphs = ["graph " + ", ".join(map(str, self.graphs))] if self.graphs else []
        if self.state == "captured":
            return graphs[0] if graphs else "captured"
        if self.state == "not reached":
            return ""
        return ", ".join([*graphs, self.state])


@dataclass(frozen=True)
class ListedFunction:
    """One function of the user's."""

    file: str
    name: str
    lines: tuple[ListedLine, ...]


@dataclass(frozen=True)
class Listing:
    """All functions of the user's that a compiled call entered.

    Prints as plain text; a console of `rich` shows it in colours.
    """

    functions: tuple[ListedFunction, ...]

    def __str__(self) -> str:
        rows: list[str] = []
        for function in self.functions:
            rows.append(f"{function.file}, {function.name}")
            rows += [f"{x.label:16} {x.number:5}  {x.text}".rstrip() for x in function.lines]
        return "\n".join(rows)

    def __rich__(self) -> str:
        """Return the same in rich's markup."""
        rows: list[str] = []
        for function in self.functions:
            rows.append(f"[bold]{_escaped(f'{function.file}, {function.name}')}[/]")
            for x in function.lines:
                row = f"{x.label:16} {x.number:5}  {_escaped(x.text)}"
                rows.append(f"[{COLOURS[x.state]}]{row}[/]")
        return "\n".join(rows)

    def to_html(self) -> str:
        """Return a table for each function, each row of a class of its state."""
        parts: list[str] = []
        for function in self.functions:
            parts.append(f"<h3>{html.escape(f'{function.file}, {function.name}')}</h3>")
            parts += ["<table class=listing>", *map(_html_row, function.lines), "</table>"]
        return "\n".join(parts)


def _escaped(text: str) -> str:
    """Return a text in which rich sees no markup."""
    return text.replace("[", r"\[")


def _html_row(line: ListedLine) -> str:
    cells = (line.label, line.number, line.text)
    columns = "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells)
    return f'<tr class="{line.state.replace(" ", "-")}">{columns}</tr>'


@dataclass
class _Lines:
    """The facts that are known of lines, each a file and a number."""

    evaluated: set[tuple[str, int]] = field(default_factory=set)
    broken: set[tuple[str, int]] = field(default_factory=set)
    python: set[tuple[str, int]] = field(default_factory=set)
    graphs: dict[tuple[str, int], set[int]] = field(default_factory=lambda: defaultdict(set))

    def add(self, compiled: CompiledFrame, graph: int) -> None:
        """Add the lines and the break of an entry; its graph has this number."""
        self.evaluated |= compiled.lines
        self.add_break(compiled.graph_break)
        for node in compiled.graph.graph.nodes if compiled.graph is not None else ():
            source = node.meta.get("source")
            if source is not None and node.op.startswith("call"):
                self.graphs[source.file, source.line].add(graph)

    def add_break(self, graph_break: GraphBreak | None) -> None:
        """Add the line of a break, and the calls that led there."""
        if graph_break is not None:
            lines = (graph_break.line, *graph_break.stack)
            self.broken |= {(line.file, line.line) for line in lines}

    def state(self, place: tuple[str, int]) -> str:
        """Return a key of `COLOURS`."""
        if place in self.broken:
            return "break"
        if place in self.evaluated:
            return "captured"
        return "python" if place in self.python else "not reached"


def listing_of(
    compiled: Sequence[CompiledFrame], as_is: Iterable[tuple[CodeType, GraphBreak]]
) -> Listing:
    """Return the listing of a region's functions, in the order in which they were entered.

    Args:
        as_is: functions that run in Python, and why.
    """
    lines = _Lines()
    codes: dict[tuple[str, int], CodeType] = {}
    graph = 0
    for entry in compiled:
        lines.add(entry, graph)
        graph += entry.graph is not None
        for code in entry.entered:
            codes.setdefault((code.co_filename, code.co_firstlineno), code)
    for code, graph_break in as_is:
        lines.add_break(graph_break)
        lines.python |= {(code.co_filename, n) for _, _, n in code.co_lines() if n is not None}
        codes.setdefault((code.co_filename, code.co_firstlineno), code)
    users = [code for code in codes.values() if not is_skipped_file(code.co_filename)]
    outer = [code for code in users if not _is_inside_another(code, users)]
    return Listing(tuple(_listed(code, lines) for code in outer))


def _listed(code: CodeType, lines: _Lines) -> ListedFunction:
    listed = [
        ListedLine(
            number,
            text,
            lines.state((code.co_filename, number)),
            tuple(sorted(lines.graphs.get((code.co_filename, number), ()))),
        )
        for number, text in enumerate(source_lines(code), code.co_firstlineno)
    ]
    return ListedFunction(code.co_filename, code.co_qualname, tuple(listed))


def _is_inside_another(code: CodeType, others: Sequence[CodeType]) -> bool:
    """Return whether the text of a function is part of another's that is listed anyway."""
    return any(
        other is not code
        and other.co_filename == code.co_filename
        and other.co_firstlineno < code.co_firstlineno
        and code.co_firstlineno < other.co_firstlineno + len(source_lines(other))
        for other in others
    )


def source_lines(code: CodeType) -> list[str]:
    """Return the lines of a function, from the file it was read from; none if that is unknown."""
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :]
    try:
        block = inspect.getblock(lines)
    except (tokenize.TokenError, SyntaxError):  # a lambda amid an expression
        block = lines[:1]
    return [line.rstrip("\n") for line in block]
