"""Trees of what Python's own parser found: `ast` nodes, one by one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal

from minitorch2.foundation.syntax_tree import parse
from minitorch2.script.syntax import tree as t
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.refusals import refusal, syntax_error
from minitorch2.script.syntax.source import SourceFile, SourceRange

OPERATORS: Final[dict[type[ast.AST], str]] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.MatMult: "@", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&",
    ast.BitOr: "|", ast.BitXor: "^", ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
"""The token of each operator."""

_REFUSED: Final = {
    "AsyncFor": "async", "AsyncFunctionDef": "async", "AsyncWith": "async", "Await": "await",
    "ClassDef": "class", "FunctionDef": "def", "GeneratorExp": "generator", "Global": "global",
    "Import": "import", "ImportFrom": "import", "Lambda": "lambda", "Match": "match",
    "NamedExpr": "walrus", "Nonlocal": "nonlocal", "Set": "set", "SetComp": "set", "Try": "try",
    "TryStar": "try", "TypeAlias": "type", "Yield": "yield", "YieldFrom": "yield",
}  # fmt: skip
"""The entry of `REFUSALS` for each class of nodes that no tree stands for."""


def function_from_ast(file: SourceFile, *, postpones: bool = False) -> t.Def:
    """Return the tree of the text of one function.

    Args:
        file: the text.
        postpones: let statements that are no part of the language be `Refused` trees, and read a
            generator that a call or an assignment to several names takes as a list comprehension.

    Raises:
        ScriptError: the text is no function of the language.
    """
    match _statements(file):
        case [ast.FunctionDef() as node]:
            return _Reader(file, postpones=postpones).function(node)
        case [ast.AsyncFunctionDef() as node]:
            raise refusal("async", _Reader(file).range(node))
    raise syntax_error("one function is expected: `def name(...): ...`", file.range())


def module_from_ast(file: SourceFile) -> tuple[t.Def | t.ClassDef | t.Stmt, ...]:
    """Return the trees of a whole file: functions, classes and statements."""
    reader = _Reader(file)
    return tuple(map(reader.definition, _statements(file)))


def expression_from_ast(file: SourceFile) -> t.Expr:
    """Return the tree of the text of one expression."""
    match _statements(file):
        case [ast.Expr(value)]:
            return _Reader(file).expression(value)
    raise syntax_error("one expression is expected", file.range())


def _statements(file: SourceFile) -> list[ast.stmt]:
    try:
        return parse(file.text, file.name).body
    except SyntaxError as error:
        row = max((error.lineno or 1) - 1, 0)
        column = max((error.offset or 1) - 1, 0)
        row = min(row, len(file.line_starts) - 1)
        start = min(file.line_starts[row] + column, len(file.text))
        raise syntax_error(f"this is no Python: {error.msg}", file.range(start, start)) from None


_READ_FROM_PYTHON: Final = frozenset({"Import", "ImportFrom", "Lambda"})
"""What functions of Python may have, and text of scripts may not."""


class _Reader:
    """Reads nodes of one file; a method named ``read_X`` reads nodes of the class `ast.X`."""

    def __init__(self, file: SourceFile, *, postpones: bool = False) -> None:
        self.file = file
        self.postpones = postpones

    # Ranges

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a position of `ast`, whose columns count bytes of UTF-8."""
        start, text = self.file.line_starts[line - 1], self.file.row_text(line - 1)
        ahead = column if text.isascii() else len(text.encode()[:column].decode())
        return start + ahead

    def between(self, first: Any, last: Any) -> SourceRange:
        """Return the range from the start of one node to the end of another."""
        start = self.offset(first.lineno, first.col_offset)
        return self.file.range(start, self.offset(last.end_lineno, last.end_col_offset))

    def range(self, node: Any) -> SourceRange:
        return self.between(node, node)

    def unless(self, refused: Sequence[Any] | Any, construct: str, at: Any) -> None:
        """Refuse a construct at a node if the node has something that stands for it."""
        if refused:
            raise refusal(construct, self.range(at))

    # Each kind of node

    def read(self, node: ast.AST) -> Any:
        name = type(node).__name__
        if name in _REFUSED and not (self.postpones and name in _READ_FROM_PYTHON):
            raise refusal(_REFUSED[name], self.range(node))
        method: Callable[[Any, SourceRange], t.Tree] = getattr(self, f"read_{name}")
        return method(node, self.range(node))

    def expression(self, node: ast.expr) -> t.Expr:
        found: t.Expr = self.read(node)
        return found

    def optional(self, node: ast.expr | None) -> t.Expr | None:
        return None if node is None else self.expression(node)

    def expressions(self, nodes: Iterable[ast.expr]) -> tuple[t.Expr, ...]:
        return tuple(map(self.expression, nodes))

    def body(self, nodes: Iterable[ast.stmt]) -> tuple[t.Stmt, ...]:
        return tuple(map(self.statement, nodes))

    def statement(self, node: ast.stmt) -> t.Stmt:
        """Read a statement; one that is refused becomes a `Refused`, if refusals are postponed."""
        try:
            found: t.Stmt = self.read(node)
        except ScriptError as error:
            if not self.postpones:
                raise
            return t.Refused(error, range=self.range(node))
        return found

    # Definitions

    def definition(self, node: ast.stmt) -> t.Def | t.ClassDef | t.Stmt:
        if isinstance(node, ast.FunctionDef):
            return self.function(node)
        if isinstance(node, ast.ClassDef):
            return self.class_definition(node)
        statement: t.Stmt = self.read(node)
        return statement

    def function(self, node: ast.FunctionDef) -> t.Def:
        decorators = self.expressions(node.decorator_list)
        self.unless(getattr(node, "type_params", ()), "type-parameters", node)
        parameters = tuple(self.parameters(node.args))
        returns, body = self.optional(node.returns), self.body(node.body)
        return t.Def(node.name, parameters, returns, body, decorators, range=self.range(node))

    def parameters(self, given: ast.arguments) -> Iterable[t.Param]:
        positional = [*given.posonlyargs, *given.args]
        missing = len(positional) - len(given.defaults)
        for parameter, default in zip(positional, [*[None] * missing, *given.defaults]):
            yield self.parameter(parameter, default, "positional")
        if given.vararg:
            yield self.parameter(given.vararg, None, "varargs")
        for parameter, default in zip(given.kwonlyargs, given.kw_defaults):
            yield self.parameter(parameter, default, "keyword")
        if given.kwarg:
            yield self.parameter(given.kwarg, None, "kwargs")

    def parameter(self, node: ast.arg, default: ast.expr | None, kind: t.ParamKind) -> t.Param:
        annotation = self.optional(node.annotation)
        return t.Param(node.arg, annotation, self.optional(default), kind, range=self.range(node))

    def class_definition(self, node: ast.ClassDef) -> t.ClassDef:
        self.unless(node.decorator_list, "class-decorator", node)
        self.unless(getattr(node, "type_params", ()), "type-parameters", node)
        bases = self.expressions(node.bases)
        self.unless(node.keywords, "class-keyword", node)
        body = tuple(
            self.function(each) if isinstance(each, ast.FunctionDef) else self.read(each)
            for each in node.body
        )
        return t.ClassDef(node.name, bases, body, range=self.range(node))

    # Statements

    def read_Assign(self, node: ast.Assign, at: SourceRange) -> t.Stmt:
        targets = self.expressions(node.targets)
        unpacks = all(isinstance(target, t.TupleLiteral | t.ListLiteral) for target in targets)
        value = (self.consumed if unpacks else self.expression)(node.value)
        return t.Assign(targets, value, None, range=at)

    def read_AnnAssign(self, node: ast.AnnAssign, at: SourceRange) -> t.Stmt:
        target, annotation = self.expression(node.target), self.expression(node.annotation)
        return t.Assign((target,), self.optional(node.value), annotation, range=at)

    def read_AugAssign(self, node: ast.AugAssign, at: SourceRange) -> t.Stmt:
        target, op = self.expression(node.target), OPERATORS[type(node.op)]
        return t.AugmentedAssign(target, op, self.expression(node.value), range=at)

    def read_Expr(self, node: ast.Expr, at: SourceRange) -> t.Stmt:
        return t.ExpressionStatement(self.expression(node.value), range=at)

    def read_Return(self, node: ast.Return, at: SourceRange) -> t.Stmt:
        return t.Return(self.optional(node.value), range=at)

    def read_If(self, node: ast.If, at: SourceRange) -> t.Stmt:
        condition, body = self.expression(node.test), self.body(node.body)
        return t.If(condition, body, self.body(node.orelse), range=at)

    def read_While(self, node: ast.While, at: SourceRange) -> t.Stmt:
        condition, body = self.expression(node.test), self.body(node.body)
        self.unless(node.orelse, "loop-else", node)
        return t.While(condition, body, range=at)

    def read_For(self, node: ast.For, at: SourceRange) -> t.Stmt:
        target, iterable = self.expression(node.target), self.expression(node.iter)
        body = self.body(node.body)
        self.unless(node.orelse, "loop-else", node)
        return t.For(target, iterable, body, range=at)

    def read_Raise(self, node: ast.Raise, at: SourceRange) -> t.Stmt:
        value = self.optional(node.exc)
        self.unless(node.cause, "from-raise", node)
        return t.Raise(value, range=at)

    def read_Assert(self, node: ast.Assert, at: SourceRange) -> t.Stmt:
        return t.Assert(self.expression(node.test), self.optional(node.msg), range=at)

    def read_Break(self, _: ast.Break, at: SourceRange) -> t.Stmt:
        return t.Break(range=at)

    def read_Continue(self, _: ast.Continue, at: SourceRange) -> t.Stmt:
        return t.Continue(range=at)

    def read_Pass(self, _: ast.Pass, at: SourceRange) -> t.Stmt:
        return t.Pass(range=at)

    def read_With(self, node: ast.With, at: SourceRange) -> t.Stmt:
        items = tuple(map(self.with_item, node.items))
        return t.With(items, self.body(node.body), range=at)

    def with_item(self, item: ast.withitem) -> t.WithItem:
        at = self.between(item.context_expr, item.optional_vars or item.context_expr)
        context = self.expression(item.context_expr)
        return t.WithItem(context, self.optional(item.optional_vars), range=at)

    def read_Import(self, node: ast.Import, at: SourceRange) -> t.Stmt:
        first, *others = node.names
        self.unless(others, "import", node)
        name = first.asname or first.name.partition(".")[0]
        return t.Import(first.name if first.asname else name, None, name, range=at)

    def read_ImportFrom(self, node: ast.ImportFrom, at: SourceRange) -> t.Stmt:
        first, *others = node.names
        self.unless(others or node.level or not node.module, "import", node)
        return t.Import(node.module or "", first.name, first.asname or first.name, range=at)

    def read_Lambda(self, node: ast.Lambda, at: SourceRange) -> t.Expr:
        given = node.args
        special = given.vararg or given.kwarg or given.kwonlyargs or given.defaults
        self.unless(special, "lambda", node)
        names = tuple(argument.arg for argument in (*given.posonlyargs, *given.args))
        return t.Lambda(names, self.expression(node.body), range=at)

    def read_Delete(self, node: ast.Delete, at: SourceRange) -> t.Stmt:
        return t.Delete(self.expressions(node.targets), range=at)

    # Expressions

    def read_Name(self, node: ast.Name, at: SourceRange) -> t.Expr:
        return t.Name(node.id, range=at)

    def read_Constant(self, node: ast.Constant, at: SourceRange) -> t.Expr:
        if isinstance(node.value, bytes):
            raise refusal("bytes", at)
        return t.Constant(node.value, range=at)

    def read_JoinedStr(self, node: ast.JoinedStr, at: SourceRange) -> t.Expr:
        parts = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.unless(part.conversion != -1 or part.format_spec, "format", node)
                part = part.value
            parts.append(self.expression(part))
        return t.FormattedString(tuple(parts), range=at)

    def read_Attribute(self, node: ast.Attribute, at: SourceRange) -> t.Expr:
        return t.Attribute(self.expression(node.value), node.attr, range=at)

    def read_Call(self, node: ast.Call, at: SourceRange) -> t.Expr:
        function = self.expression(node.func)
        arguments = tuple(map(self.consumed, node.args))
        return t.Call(function, arguments, tuple(map(self.read, node.keywords)), range=at)

    def consumed(self, node: ast.expr) -> t.Expr:
        """Read an expression whose elements are taken at once: a generator is a list there."""
        if self.postpones and isinstance(node, ast.GeneratorExp):
            return self.read_ListComp(node, self.range(node))
        return self.expression(node)

    def read_keyword(self, node: ast.keyword, at: SourceRange) -> t.Keyword:
        return t.Keyword(node.arg, self.expression(node.value), range=at)

    def read_Starred(self, node: ast.Starred, at: SourceRange) -> t.Expr:
        return t.Starred(self.expression(node.value), range=at)

    def read_UnaryOp(self, node: ast.UnaryOp, at: SourceRange) -> t.Expr:
        return t.Unary(OPERATORS[type(node.op)], self.expression(node.operand), range=at)

    def read_BinOp(self, node: ast.BinOp, at: SourceRange) -> t.Expr:
        left, op = self.expression(node.left), OPERATORS[type(node.op)]
        return t.Binary(op, left, self.expression(node.right), range=at)

    def read_BoolOp(self, node: ast.BoolOp, at: SourceRange) -> t.Expr:
        op: Literal["and", "or"] = "and" if isinstance(node.op, ast.And) else "or"
        found = self.expression(node.values[0])
        for value in node.values[1:]:
            is_last = value is node.values[-1]
            both = at if is_last else self.file.range(at.start, self.range(value).end)
            found = t.Logical(op, found, self.expression(value), range=both)
        return found

    def read_Compare(self, node: ast.Compare, at: SourceRange) -> t.Expr:
        operators = [OPERATORS[type(op)] for op in node.ops]
        first = self.expression(node.left)
        values = map(self._searched, operators, node.comparators)
        return t.Compare(first, tuple(zip(operators, values)), range=at)

    def _searched(self, operator: str, node: ast.expr) -> t.Expr:
        """Read an operand; a set that is only searched is as good as a tuple."""
        if operator.endswith("in") and isinstance(node, ast.Set):
            return t.TupleLiteral(self.expressions(node.elts), range=self.range(node))
        return self.expression(node)

    def read_IfExp(self, node: ast.IfExp, at: SourceRange) -> t.Expr:
        then, condition = self.expression(node.body), self.expression(node.test)
        return t.Conditional(condition, then, self.expression(node.orelse), range=at)

    def read_List(self, node: ast.List, at: SourceRange) -> t.Expr:
        return t.ListLiteral(self.expressions(node.elts), range=at)

    def read_Tuple(self, node: ast.Tuple, at: SourceRange) -> t.Expr:
        return t.TupleLiteral(self.expressions(node.elts), range=at)

    def read_Dict(self, node: ast.Dict, at: SourceRange) -> t.Expr:
        keys, values = [], []
        for key, value in zip(node.keys, node.values):
            if key is None:
                raise refusal("dict-unpacking", self.range(value))
            keys.append(self.expression(key))
            values.append(self.expression(value))
        return t.DictLiteral(tuple(keys), tuple(values), range=at)

    def read_ListComp(self, node: ast.ListComp | ast.GeneratorExp, at: SourceRange) -> t.Expr:
        return t.ListComprehension(self.expression(node.elt), *self.loop(node), range=at)

    def read_DictComp(self, node: ast.DictComp, at: SourceRange) -> t.Expr:
        key, value = self.expression(node.key), self.expression(node.value)
        return t.DictComprehension(key, value, *self.loop(node), range=at)

    def loop(
        self, node: ast.ListComp | ast.DictComp | ast.GeneratorExp
    ) -> tuple[t.Expr, t.Expr, tuple[t.Expr, ...]]:
        first, *others = node.generators
        self.unless(first.is_async, "async", node)
        found = self.expression(first.target), self.expression(first.iter)
        conditions = self.expressions(first.ifs)
        self.unless(others, "comprehension-loops", node)
        return (*found, conditions)

    def read_Subscript(self, node: ast.Subscript, at: SourceRange) -> t.Expr:
        return t.Subscript(self.expression(node.value), self.expression(node.slice), range=at)

    def read_Slice(self, node: ast.Slice, at: SourceRange) -> t.Expr:
        start, stop = self.optional(node.lower), self.optional(node.upper)
        return t.Slice(start, stop, self.optional(node.step), range=at)
