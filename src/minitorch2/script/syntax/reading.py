"""The source text of a function or a class that Python has loaded."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import tokenize
from collections.abc import Callable, Iterator
from functools import cache
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


def overloads_of(function: Callable[..., Any]) -> list[SourceFile]:
    """Return the texts of the overloads that stand before a function, in the same block of code.

    An overload is a definition of the same name with a decorator whose name ends in ``overload``
    or ``overload_method``; its body means nothing.
    """
    name, code = function.__name__, function.__code__
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    if not re.search(rf"@[\w.]*overload(_method)?\b.*\n(\s*[#@].*\n)*\s*def {name}\b", text):
        return []
    for block in _blocks(text):
        named = [each for each in block if each.name == name]
        if any(code.co_firstlineno in (each.lineno, _first_line(each)) for each in named):
            return [_text_of(each, text, code.co_filename) for each in named if _is_overload(each)]
    return []


@cache
def _blocks(text: str) -> list[list[ast.FunctionDef]]:
    """Return the functions that a module and each of its classes define."""
    tree = ast.parse(text)
    owners = [node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef)]
    return [[each for each in owner.body if isinstance(each, ast.FunctionDef)] for owner in owners]


def _first_line(definition: ast.FunctionDef) -> int:
    return min([definition.lineno, *(each.lineno for each in definition.decorator_list)])


def _is_overload(definition: ast.FunctionDef) -> bool:
    names = (ast.unparse(decorator) for decorator in definition.decorator_list)
    return any(name.endswith(("overload", "overload_method")) for name in names)


def _text_of(definition: ast.FunctionDef, text: str, path: str) -> SourceFile:
    lines = text.splitlines(keepends=True)[definition.lineno - 1 : definition.end_lineno]
    indent = definition.col_offset
    return SourceFile("".join(_dedented(lines, indent)), path, definition.lineno, indent)


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
