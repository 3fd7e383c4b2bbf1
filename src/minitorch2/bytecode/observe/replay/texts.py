"""The text of a function, a lambda or a class, and the names that it reads from outside."""

from __future__ import annotations

import ast
import inspect
import linecache
import symtable
import textwrap
from collections.abc import Iterator
from types import CodeType, FunctionType

from minitorch2.bytecode.observe.replay.plain import ReplayError
from minitorch2.foundation import syntax_tree

_WRITE_IT = "write it with `def` or `class` in a file"
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


def definition_of(thing: FunctionType | type) -> Definition:
    """Return the syntax tree that defines a function or class, without parameter annotations.

    Raises:
        ReplayError: there is no text.
    """
    if isinstance(thing, FunctionType) and thing.__code__.co_name == "<lambda>":
        return _lambda_of(thing.__code__)
    try:
        text = inspect.getsource(thing if isinstance(thing, type) else thing.__code__)
        (definition,) = syntax_tree.parse(textwrap.dedent(text)).body
    except (OSError, TypeError, SyntaxError, ValueError) as error:
        raise ReplayError(f"there is no text of {thing.__qualname__}", fix=_WRITE_IT) from error
    if not isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        raise ReplayError(f"{thing.__qualname__} has no text of its own", fix=_WRITE_IT)
    _remove_annotations(definition)
    return definition


def without_defaults(definition: Definition) -> None:
    """Let defaults be `...`: the reader gives the function the values that they have now."""
    if not isinstance(definition, ast.ClassDef):
        given = definition.args
        given.defaults = [ast.Constant(...) for _ in given.defaults]
        given.kw_defaults = [default and ast.Constant(...) for default in given.kw_defaults]


def _remove_annotations(definition: ast.AST) -> None:
    for node in ast.walk(definition):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None


def _lambda_of(code: CodeType) -> ast.Lambda:
    """Return the lambda whose body stands where the code's instructions come from."""
    places = {(line, column) for line, _, column, _ in code.co_positions() if line and column}
    tree = syntax_tree.parse("".join(linecache.getlines(code.co_filename)) or "0")
    lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
    holding = [node for node in lambdas if all(_holds(node.body, place) for place in places)]
    if not places or not holding:
        cause = f"there is no text of the lambda in line {code.co_firstlineno}"
        raise ReplayError(cause, fix=_WRITE_IT)
    return max(holding, key=lambda node: (node.lineno, node.col_offset))


def _holds(node: ast.expr, place: tuple[int, int]) -> bool:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return (node.lineno, node.col_offset) <= place <= (node.end_lineno, node.end_col_offset)


def names_read(text: str) -> tuple[set[str], set[str]]:
    """Return the outside names that a definition reads while it is made, and only later."""
    tree = syntax_tree.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)  # it stays text
    early: set[str] = set()
    late: set[str] = set()
    for table in _tables(symtable.symtable(ast.unparse(tree), "<text>", "exec")):
        into = late if table.get_type() == "function" else early
        outer = table.get_type() == "module"
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (symbol.is_global() or outer):
                into.add(symbol.get_name())
    own = symtable.symtable(text, "<text>", "exec").get_symbols()
    defined = {symbol.get_name() for symbol in own if symbol.is_assigned()}
    return early - defined, late - early - defined


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)
