"""Trees: one frozen dataclass for each production of the language, each with its range of text.

The dataclasses are also what the TorchScript overview calls Tree Views: they name their parts.
Two trees are equal if they say the same, wherever their texts stand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from types import EllipsisType
from typing import Literal, TypeAlias

from minitorch2.script.syntax.source import SourceRange

_WIDTH = 30


@dataclass(frozen=True)
class Tree:
    """A part of a program.

    Attributes:
        range: the text that it was read from. Comparison leaves it out.
    """

    range: SourceRange = field(compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class Expr(Tree):
    """A part that has a value."""


@dataclass(frozen=True)
class Stmt(Tree):
    """A part that does something."""


@dataclass(frozen=True)
class Name(Expr):
    """A variable: ``x``."""

    id: str


ConstantValue: TypeAlias = int | float | complex | str | bool | EllipsisType | None
"""What a literal can be."""


@dataclass(frozen=True, eq=False)
class Constant(Expr):
    """A literal: a number, a string, True, False, None or ``...``; 1, 1.0 and True differ."""

    value: ConstantValue

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[type, str]:
        return type(self.value), repr(self.value)


@dataclass(frozen=True)
class FormattedString(Expr):
    """An f-string: ``f"{a} b"``; texts are constants of type str."""

    parts: tuple[Expr, ...]


@dataclass(frozen=True)
class Attribute(Expr):
    """``value.name``."""

    value: Expr
    name: str


@dataclass(frozen=True)
class Keyword(Tree):
    """``name=value`` in a call; `name` is None for ``**value``."""

    name: str | None
    value: Expr


@dataclass(frozen=True)
class Call(Expr):
    """``function(*arguments, **keywords)``."""

    function: Expr
    arguments: tuple[Expr, ...]
    keywords: tuple[Keyword, ...]


@dataclass(frozen=True)
class Starred(Expr):
    """``*value`` in a call, a list, a tuple or a target."""

    value: Expr


@dataclass(frozen=True)
class Unary(Expr):
    """``-x``, ``+x``, ``~x`` or ``not x``; `op` is the token."""

    op: str
    operand: Expr


@dataclass(frozen=True)
class Binary(Expr):
    """``left + right`` and other arithmetic; `op` is the token."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Logical(Expr):
    """``left and right`` or ``left or right``; of three operands, the first two come first."""

    op: Literal["and", "or"]
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Compare(Expr):
    """``first < a <= b``; `rest` pairs each operator, such as ``not in``, with a value."""

    first: Expr
    rest: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class Lambda(Expr):
    """``lambda a, b: body``."""

    parameters: tuple[str, ...]
    body: Expr


@dataclass(frozen=True)
class Conditional(Expr):
    """``then if condition else otherwise``."""

    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True)
class ListLiteral(Expr):
    """``[a, b]``."""

    items: tuple[Expr, ...]


@dataclass(frozen=True)
class TupleLiteral(Expr):
    """``(a, b)``, or ``a, b`` without brackets."""

    items: tuple[Expr, ...]


@dataclass(frozen=True)
class DictLiteral(Expr):
    """``{key: value}``."""

    keys: tuple[Expr, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True)
class ListComprehension(Expr):
    """``[element for target in iterable if condition]``."""

    element: Expr
    target: Expr
    iterable: Expr
    conditions: tuple[Expr, ...]


@dataclass(frozen=True)
class DictComprehension(Expr):
    """``{key: value for target in iterable if condition}``."""

    key: Expr
    value: Expr
    target: Expr
    iterable: Expr
    conditions: tuple[Expr, ...]


@dataclass(frozen=True)
class Subscript(Expr):
    """``value[index]``; several indices are a `TupleLiteral`."""

    value: Expr
    index: Expr


@dataclass(frozen=True)
class Slice(Expr):
    """``start:stop:step`` within a subscript."""

    start: Expr | None
    stop: Expr | None
    step: Expr | None


@dataclass(frozen=True)
class Assign(Stmt):
    """``a = b = value``, ``a: type = value`` or ``a: type`` (then `value` is None)."""

    targets: tuple[Expr, ...]
    value: Expr | None
    type: Expr | None


@dataclass(frozen=True)
class AugmentedAssign(Stmt):
    """``target += value``; `op` is the operator without ``=``, as in `Binary`."""

    target: Expr
    op: str
    value: Expr


@dataclass(frozen=True)
class ExpressionStatement(Stmt):
    """An expression whose value is not used; docstrings as well."""

    value: Expr


@dataclass(frozen=True)
class Return(Stmt):
    """``return value``."""

    value: Expr | None


@dataclass(frozen=True)
class If(Stmt):
    """``if condition: body else: orelse``; ``elif`` is an `If` in `orelse`."""

    condition: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


@dataclass(frozen=True)
class While(Stmt):
    """``while condition: body``."""

    condition: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class For(Stmt):
    """``for target in iterable: body``."""

    target: Expr
    iterable: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class Raise(Stmt):
    """``raise value``."""

    value: Expr | None


@dataclass(frozen=True)
class Assert(Stmt):
    """``assert test, message``."""

    test: Expr
    message: Expr | None


@dataclass(frozen=True)
class Break(Stmt):
    """``break``."""


@dataclass(frozen=True)
class Continue(Stmt):
    """``continue``."""


@dataclass(frozen=True)
class Pass(Stmt):
    """``pass``."""


@dataclass(frozen=True)
class Import(Stmt):
    """``import a.b as c`` or ``from a import b as c``: a module, an attribute of it, a name."""

    module: str
    attribute: str | None
    name: str


@dataclass(frozen=True)
class Refused(Stmt):
    """A statement outside of the language; it is an error only where it could run."""

    error: Exception


@dataclass(frozen=True)
class WithItem(Tree):
    """``context as target``."""

    context: Expr
    target: Expr | None


@dataclass(frozen=True)
class With(Stmt):
    """``with items: body``."""

    items: tuple[WithItem, ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class Delete(Stmt):
    """``del targets``."""

    targets: tuple[Expr, ...]


ParamKind: TypeAlias = Literal["positional", "keyword", "varargs", "kwargs"]


@dataclass(frozen=True)
class Param(Tree):
    """A parameter; `kind` is ``keyword`` for one that only a keyword can give."""

    name: str
    type: Expr | None
    default: Expr | None
    kind: ParamKind


@dataclass(frozen=True)
class Def(Stmt):
    """``def name(parameters) -> returns: body``."""

    name: str
    parameters: tuple[Param, ...]
    returns: Expr | None
    body: tuple[Stmt, ...]
    decorators: tuple[Expr, ...]


@dataclass(frozen=True)
class ClassDef(Tree):
    """``class name(bases): body``."""

    name: str
    bases: tuple[Expr, ...]
    body: tuple[Stmt | Def, ...]


def s_expression(tree: Tree) -> str:
    """Return the tree as text, ``(kind part part)``, with ``(option)`` for None.

    The program ``-x`` is ``(- (variable (ident x)))`` (TorchScript overview, Tree).
    """
    match tree:
        case Name(id):
            parts = ["variable", _atom("ident", id)]
        case Constant(value):
            parts = ["const", "..." if value is ... else repr(value)]
        case Attribute(value, name):
            parts = [".", s_expression(value), _atom("ident", name)]
        case Call(function, arguments, keywords):
            parts = ["apply", *map(_part, (function, arguments, keywords))]
        case Unary(op, operand):
            parts = [op, s_expression(operand)]
        case Binary(op, left, right) | Logical(op, left, right):
            parts = [op, s_expression(left), s_expression(right)]
        case _:
            parts = [_kind(tree), *(_part(getattr(tree, part)) for part in parts_of(tree))]
    return _brackets(parts)


def parts_of(tree: Tree) -> list[str]:
    """Return the names of a tree's fields, without its range."""
    return [part.name for part in fields(tree) if part.name != "range"]


def _kind(tree: Tree) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", type(tree).__name__).lower()


def _part(part: object) -> str:
    if isinstance(part, Tree):
        return s_expression(part)
    if isinstance(part, tuple):
        return _brackets(["list", *map(_part, part)])
    return "(option)" if part is None else _atom("ident", str(part))


def _atom(kind: str, text: str) -> str:
    return f"({kind} {text})"


def _brackets(parts: list[str]) -> str:
    line = f"({' '.join(parts)})"
    if len(line) <= _WIDTH and "\n" not in line:
        return line
    return "(" + "\n".join(parts).replace("\n", "\n  ") + ")"
