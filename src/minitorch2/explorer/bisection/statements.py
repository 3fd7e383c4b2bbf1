"""Cut a function down whose graphs are all right, or which has none: by statements of its source.

    cut ::= drop a run of statements  |  put the body of a statement in its place
         |  replace an operation by one of its operands, a list by one of its items

A cut program may lose the line that ends a loop. So it first runs in eager PyTorch with its lines
counted, and too many of them end it.
"""

from __future__ import annotations

import ast
import copy
import inspect
import itertools
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

from minitorch2.explorer.bisection.outcomes import observed
from minitorch2.foundation.source_lines import keep_lines

MOST_LINES: Final = 100_000
"""A cut program that runs more lines than these has lost the end of a loop."""
_NUMBERS: Final = itertools.count()


@dataclass(frozen=True)
class Source:
    """A function as statements.

    Attributes:
        function: the function in full, whose globals, closure and defaults each part has.
        tree: the statements that are left.
    """

    function: FunctionType
    tree: ast.FunctionDef

    @staticmethod
    def of(function: object) -> Source | None:
        """Return the statements of a function; None for other callables, and where no text is."""
        if not isinstance(function, FunctionType):
            return None
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        except (OSError, SyntaxError):
            return None
        if not isinstance(tree, ast.FunctionDef):
            return None
        tree.decorator_list = []
        return Source(function, tree)

    @property
    def size(self) -> int:
        """The number of statements, without the function's own head."""
        return sum(isinstance(node, ast.stmt) for node in ast.walk(self.tree)) - 1

    @property
    def text(self) -> str:
        """The function as Python."""
        return ast.unparse(ast.fix_missing_locations(self.tree)) + "\n"

    def made(self) -> FunctionType:
        """Return a function that has these statements, and the rest from the one in full.

        Raises:
            SyntaxError: they are no program.
        """
        free = self.function.__code__.co_freevars
        cells = dict(zip(free, self.function.__closure__ or (), strict=True))
        text = f"def around({', '.join(free)}):\n{textwrap.indent(self.text, ' ' * 4)}"
        file = f"<bisected function {next(_NUMBERS)}>"
        code = _code_in(compile(text, file, "exec"), "around", self.tree.name)
        closure = tuple(cells[name] for name in code.co_freevars)
        made = FunctionType(
            code, self.function.__globals__, self.tree.name, self.function.__defaults__, closure
        )
        made.__kwdefaults__ = self.function.__kwdefaults__
        made.__annotations__ = self.function.__annotations__
        keep_lines(file, text, made)
        return made

    def cuts(self) -> Iterator[Source]:
        """Yield smaller functions, those without many statements first."""
        for number, block in enumerate(_blocks(self.tree)):
            length = len(block) if type(block[0]) is not ast.Pass else 0
            while length:
                for start in range(len(block) - length, -1, -length):
                    yield self._edited(number, start, length, ())
                length //= 2
        for number, block in enumerate(_blocks(self.tree)):
            for place, statement in enumerate(block):
                inner = [each for each in _blocks(statement) if each is not block]
                if inner and not isinstance(statement, ast.FunctionDef | ast.ClassDef):
                    yield self._edited(number, place, 1, inner[0])
        for number, operation in enumerate(_operations(self.tree)):
            for operand in range(len(_operands(operation))):
                yield self._with_operand(number, operand)

    def _edited(self, block: int, start: int, length: int, new: Sequence[ast.stmt]) -> Source:
        tree = copy.deepcopy(self.tree)
        statements = list(_blocks(tree))[block]
        statements[start : start + length] = copy.deepcopy(list(new))
        if not statements:
            statements.append(ast.Pass())
        return Source(self.function, tree)

    def _with_operand(self, number: int, operand: int) -> Source:
        tree = copy.deepcopy(self.tree)
        old = list(_operations(tree))[number]
        return Source(self.function, _Replace(old, _operands(old)[operand]).visit(tree))


class _Replace(ast.NodeTransformer):
    """Puts one expression in the place of another."""

    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self._old = old
        self._new = new

    def visit(self, node: ast.AST) -> Any:
        return self._new if node is self._old else self.generic_visit(node)


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield all lists of statements in a tree, the outer ones first."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                yield block


def _operations(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield all expressions that have operands."""
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.expr) and _operands(node))


def _operands(node: ast.expr) -> list[ast.expr]:
    """Return the expressions that can stand in the place of an operation on them."""
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.BoolOp):
        return node.values
    if isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Load):
        return [each for each in node.elts if not isinstance(each, ast.Starred)]
    if isinstance(node, ast.Call):
        receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return [*receiver, *(each for each in node.args if not isinstance(each, ast.Starred))]
    return []


def _code_in(code: CodeType, *path: str) -> CodeType:
    """Return the code of a function that is defined inside others."""
    for name in path:
        inner = (each for each in code.co_consts if isinstance(each, CodeType))
        code = next(each for each in inner if each.co_name == name)
    return code


class _TooLong(BaseException):
    """The end of a program that runs too many lines; no `except Exception` of its own stops it."""


def ends(function: FunctionType, inputs: Sequence[Any]) -> bool:
    """Return whether a function ends in eager PyTorch without an error.

    Args:
        inputs: copies of its arguments.
    """
    left, before = MOST_LINES, sys.gettrace()

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise _TooLong
        return count if frame.f_code.co_filename == function.__code__.co_filename else None

    sys.settrace(count)
    try:
        return observed(function, inputs).error is None
    except _TooLong:
        return False
    finally:
        sys.settrace(before)


def smallest(
    source: Source, fails: Callable[[FunctionType], bool], seconds: float
) -> tuple[Source, int]:
    """Return the function with the fewest statements that fails, and the number of trials."""
    end, trials, is_new = monotonic() + seconds, 0, True
    while is_new:
        is_new = False
        for cut in source.cuts():
            if monotonic() > end:
                break
            trials += 1
            if _fails(cut, fails):
                source, is_new = cut, True
                break
    return source, trials


def _fails(source: Source, fails: Callable[[FunctionType], bool]) -> bool:
    """Return whether a function fails; what has no Python does not."""
    try:
        function = source.made()
    except SyntaxError:
        return False
    return fails(function)
