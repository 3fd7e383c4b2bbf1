"""The place in the user's program that runs while a trace is recorded."""

from __future__ import annotations

import linecache
from itertools import islice
from types import CodeType

from minitorch2.graph.node import SourceLine
from minitorch2.graph.user_lines import user_frame
from minitorch2.script.syntax.source import NOWHERE, SourceFile, SourceRange


class Places:
    """The places of one trace. A file's text is read once."""

    def __init__(self) -> None:
        self._files: dict[str, SourceFile] = {}
        self._ranges: dict[tuple[CodeType, int], SourceRange] = {}

    def now(self) -> SourceRange:
        """Return the expression that runs in the innermost frame of the user's program."""
        frame = user_frame()
        if frame is None:
            return NOWHERE
        key = frame.f_code, frame.f_lasti
        if key not in self._ranges:
            self._ranges[key] = self._range(*key, frame.f_lineno)
        return self._ranges[key]

    def of_line(self, line: SourceLine | None) -> SourceRange:
        """Return the range of a line, without its indentation."""
        if line is None:
            return NOWHERE
        file = self._file(line.file)
        if line.line > len(file.line_starts):
            return NOWHERE
        start, text = file.line_starts[line.line - 1], file.row_text(line.line - 1)
        return file.range(start + len(text) - len(text.lstrip()), start + len(text.rstrip()))

    def _range(self, code: CodeType, instruction: int, line: int) -> SourceRange:
        file = self._file(code.co_filename)
        first, last, left, right = next(islice(code.co_positions(), instruction // 2, None))
        if first is None or last is None or left is None or right is None:
            first = last = line
            left, right = 0, len(linecache.getline(code.co_filename, line).rstrip())
        if last > len(file.line_starts):
            return NOWHERE
        return file.range(_offset(file, first, left), _offset(file, last, right))

    def _file(self, name: str) -> SourceFile:
        if name not in self._files:
            self._files[name] = SourceFile("".join(linecache.getlines(name)), name)
        return self._files[name]


def _offset(file: SourceFile, line: int, byte: int) -> int:
    """Return the offset of a byte of a line; Python counts columns in UTF-8."""
    text = file.row_text(line - 1).encode()
    return file.line_starts[line - 1] + len(text[:byte].decode(errors="ignore"))
