"""Python text that stands for user code, compiled so that tracebacks show the user's lines."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import CodeType

from minitorch2.foundation import syntax_tree
from minitorch2.graph.scope import Scope

NO_COLUMN = -1  # CPython then prints the line of a traceback without marks under it


def compile_function(
    lines: Sequence[tuple[str, int]], free: Sequence[str], stands_for: CodeType
) -> CodeType:
    """Compile one function definition.

    Args:
        lines: its text, each line with the line of the user's file that it stands for.
        free: names that it reads from an enclosing scope.
        stands_for: code object of the user's function: gives file, name and qualified name.

    Returns:
        the function's code object; its ``co_freevars`` are among `free`.
    """
    text = "\n".join([f"def scope({', '.join(free)}):", *(" " + line for line, _ in lines)])
    module = syntax_tree.parse(text)
    _function(_function(module)).name = _unmentioned(module)  # its own name is still the global
    for node in ast.walk(module):
        if hasattr(node, "lineno"):
            line = lines[max(node.lineno - 2, 0)][1]
            node.lineno = node.end_lineno = line  # type: ignore[attr-defined]
            node.col_offset = node.end_col_offset = NO_COLUMN  # type: ignore[attr-defined]
    scope = _inner_code(syntax_tree.compile_module(module, stands_for.co_filename))
    return _inner_code(scope).replace(
        co_name=stands_for.co_name,
        co_qualname=stands_for.co_qualname,
        co_firstlineno=stands_for.co_firstlineno,
    )


def _unmentioned(module: ast.Module) -> str:
    """Return a name that the text does not mention."""
    names = {node.id for node in ast.walk(module) if isinstance(node, ast.Name)}
    return Scope(names).fresh("__function")


def _function(node: ast.Module | ast.FunctionDef) -> ast.FunctionDef:
    inner = node.body[0]
    assert isinstance(inner, ast.FunctionDef)
    return inner


def _inner_code(code: CodeType) -> CodeType:
    return next(constant for constant in code.co_consts if isinstance(constant, CodeType))
