"""Parsing of text to a syntax tree, and compilation of a tree, while other threads do the same.

CPython 3.11 and 3.12 count the depth of a tree per interpreter, not per thread. Two threads that
build trees at once can both get ``SystemError: AST constructor recursion depth mismatch``
(https://github.com/python/cpython/issues/106905). Nothing is wrong with either tree, so it is built
again. A lock would not help: other threads of the program do not take ours.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import CodeType
from typing import TypeVar

_T = TypeVar("_T")

_ATTEMPTS = 100


def parse(text: str, file: str = "<unknown>") -> ast.Module:
    """Return the tree of a module, as `ast.parse` does.

    Raises:
        SyntaxError: `text` is not Python.
    """
    return _again_if_disturbed(lambda: ast.parse(text, file))


def compile_module(module: ast.Module, file: str) -> CodeType:
    """Return the code object of a module's tree."""

    def build() -> CodeType:
        code: CodeType = compile(module, file, "exec")
        return code

    return _again_if_disturbed(build)


def _again_if_disturbed(build: Callable[[], _T]) -> _T:
    for _ in range(_ATTEMPTS):
        try:
            return build()
        except SystemError as error:
            if "recursion depth mismatch" not in str(error):
                raise
    return build()
