"""The source text of a function or a class that Python has loaded."""

from __future__ import annotations

import inspect
import tokenize
from collections.abc import Callable, Iterator
from typing import Any

from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.source import SourceFile

_FIX = "define it with `def` in a file, or give its text"


def source_of(function: Callable[..., Any]) -> SourceFile:
    """Return the text of a function, a method or a class, dedented.

    Raises:
        ScriptError: the text cannot be found, or the function is a lambda.
    """
    name = getattr(function, "__qualname__", repr(function))
    if getattr(function, "__name__", "") == "<lambda>":
        raise ScriptError("a lambda has no statements", None, code="no-source", fix=_FIX)
    try:
        lines, first = inspect.getsourcelines(function)
        path = inspect.getsourcefile(function) or inspect.getfile(function)
    except (OSError, TypeError) as error:
        message = f"the source of {name} cannot be read: {error}"
        raise ScriptError(message, None, code="no-source", fix=_FIX) from error
    indent = len(lines[0]) - len(lines[0].lstrip())
    return SourceFile("".join(_dedented(lines, indent)), path, max(first, 1), indent)


def _dedented(lines: list[str], indent: int) -> Iterator[str]:
    """Yield the lines without indentation, but for those that continue a string."""
    kept = _within_strings(lines) if indent else set()
    for row, line in enumerate(lines, 1):
        blank = len(line) - len(line.lstrip(" \t\f"))
        yield line if row in kept else line[min(indent, blank) :]


def _within_strings(lines: list[str]) -> set[int]:
    """Return the lines that begin within a string, counted from 1."""
    ahead = iter(lines)
    found: set[int] = set()
    starts: list[int] = []
    start_of_string = getattr(tokenize, "FSTRING_START", None)
    end_of_string = getattr(tokenize, "FSTRING_END", None)
    for token in tokenize.generate_tokens(lambda: next(ahead, "")):
        if token.type == start_of_string:
            starts.append(token.start[0])
        first = starts.pop() if token.type == end_of_string else token.start[0]
        if token.type in (tokenize.STRING, end_of_string):
            found.update(range(first + 1, token.end[0] + 1))
    return found
