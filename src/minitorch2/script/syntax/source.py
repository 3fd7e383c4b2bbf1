"""Text of a program, and ranges of it that errors and graphs point at."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Final

_LINES_SHOWN = 3


@dataclass(frozen=True)
class SourceFile:
    """A piece of a program: a function, a class, or a whole file.

    Attributes:
        text: the piece, without the indentation that its first line had.
        name: the path of the user's file, or another name for the text.
        first_line: the line of the user's file that the text begins at, counted from 1.
        dropped_indent: how many columns of indentation were removed.
    """

    text: str
    name: str
    first_line: int = 1
    dropped_indent: int = 0

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """The offset of each line's first character."""
        return (0, *(at + 1 for at, letter in enumerate(self.text) if letter == "\n"))

    def row(self, offset: int) -> int:
        """Return which line of the text an offset lies in, counted from 0."""
        return bisect_right(self.line_starts, offset) - 1

    def row_text(self, row: int) -> str:
        """Return a line of the text, without its end."""
        end = self.text.find("\n", self.line_starts[row])
        return self.text[self.line_starts[row] : len(self.text) if end < 0 else end]

    def range(self, start: int = 0, end: int | None = None) -> SourceRange:
        """Return the range between two offsets; the whole text if none are given."""
        return SourceRange(self, start, len(self.text) if end is None else end)


@dataclass(frozen=True)
class SourceRange:
    """A part of a `SourceFile`: the characters from offset `start` up to `end`."""

    file: SourceFile
    start: int
    end: int

    @property
    def line(self) -> int:
        """The line of the user's file that the range begins in, counted from 1."""
        return self.file.first_line + self.file.row(self.start)

    @property
    def column(self) -> int:
        """The column of the user's file that the range begins in, counted from 0."""
        in_row = self.start - self.file.line_starts[self.file.row(self.start)]
        return in_row + self.file.dropped_indent

    def text(self) -> str:
        """Return the characters of the range."""
        return self.file.text[self.start : self.end]

    def underlined(self) -> str:
        """Return the lines of the range, each with a line of ``~`` below the range's columns."""
        first, last = self.file.row(self.start), self.file.row(max(self.start, self.end - 1))
        shown = range(first, min(last + 1, first + _LINES_SHOWN))
        margin = min(_indent(self.file.row_text(row)) for row in shown)
        return "\n".join(self._underlined(row, margin) for row in shown)

    def _underlined(self, row: int, margin: int) -> str:
        text, at = self.file.row_text(row), self.file.line_starts[row]
        start = max(self.start - at, _indent(text))
        end = max(min(self.end - at, len(text.rstrip())), start + 1)
        below = "".join("\t" if letter == "\t" else " " for letter in text[margin:start])
        return f"{text[margin:].rstrip()}\n{below}{'~' * (end - start)}"

    def __str__(self) -> str:
        return f"{self.file.name}:{self.line}:{self.column}"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


NOWHERE: Final = SourceFile("", "<nowhere>").range()
"""The range of what no text stands for."""
