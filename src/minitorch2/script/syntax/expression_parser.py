"""Expressions: a top-down precedence parser ("Pratt" parser; TorchScript overview, Parser)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Literal

from minitorch2.script.syntax import tree as t
from minitorch2.script.syntax.lexer import Lexer
from minitorch2.script.syntax.literals import number_value, parts_of_string, string_body
from minitorch2.script.syntax.refusals import refusal, syntax_error
from minitorch2.script.syntax.source import SourceRange

_LOOSEST, _CONDITIONAL, _NOT, _COMPARE, _BIT_OR, _UNARY, _POWER, _POSTFIX = (
    0,
    1,
    4,
    5,
    6,
    12,
    13,
    14,
)

_BINARY: Final = {
    "|": 6, "^": 7, "&": 8, "<<": 9, ">>": 9, "+": 10, "-": 10,
    "*": 11, "/": 11, "//": 11, "%": 11, "@": 11, "**": _POWER,
}  # fmt: skip
_LOGICAL: Final[dict[str, int]] = {"or": 2, "and": 3}
_COMPARISONS: Final = ("<", ">", "==", "!=", "<=", ">=", "in", "is")
_PRECEDENCE: Final = {
    "if": _CONDITIONAL, ":=": _CONDITIONAL, **_LOGICAL, **dict.fromkeys(_COMPARISONS, _COMPARE),
    **_BINARY, "(": _POSTFIX, "[": _POSTFIX, ".": _POSTFIX,
}  # fmt: skip
"""How strongly each operator between or after operands binds."""
_CONSTANTS: Final = {"True": True, "False": False, "None": None, "...": ...}
_REFUSED: Final = {"lambda": "lambda", "yield": "yield", "await": "await"}


class ExpressionParser:
    """Reads expressions from a `Lexer`; statements are a subclass's."""

    def __init__(self, lexer: Lexer) -> None:
        self.lexer = lexer

    def since(self, start: int) -> SourceRange:
        """Return the range from an offset to the end of the token that was taken last."""
        return self.lexer.file.range(start, self.lexer.last_end)

    @property
    def start(self) -> int:
        """The offset of the current token."""
        return self.lexer.cur().start

    def expression(self, precedence: int = _LOOSEST) -> t.Expr:
        """Read an expression all of whose operators bind stronger than `precedence`.

        Raises:
            ScriptError: none stands here, or it is no part of the language.
        """
        start = self.start
        left = self._first(precedence)
        while self._binds() > precedence:
            left = self._extended(left, start)
        return left

    def expressions(self, precedence: int = _LOOSEST) -> t.Expr:
        """Read an expression, or several with commas between them: a tuple without brackets."""
        start = self.start
        first = self.starred_or(precedence)
        if self.lexer.cur().kind != ",":
            if isinstance(first, t.Starred):
                raise syntax_error("`*` needs a list or a tuple around it", first.range)
            return first
        items = [first]
        while self.lexer.next_if(",") and self._begins():
            items.append(self.starred_or(precedence))
        return t.TupleLiteral(tuple(items), range=self.since(start))

    def starred_or(self, precedence: int = _LOOSEST) -> t.Expr:
        """Read an expression, or ``*`` and one."""
        start = self.start
        if not self.lexer.next_if("*"):
            return self.expression(precedence)
        return t.Starred(self.expression(_BIT_OR - 1), range=self.since(start))

    def targets_of_loop(self) -> t.Expr:
        """Read what stands between ``for`` and ``in``."""
        return self.expressions(_COMPARE)

    def _begins(self) -> bool:
        kind = self.lexer.cur().kind
        first = {"name", "number", "string", "-", "+", "~", "*", "not", "(", "[", "{"}
        return kind in first or kind in _CONSTANTS or kind in _REFUSED

    def _binds(self) -> int:
        kind = self.lexer.cur().kind
        if kind == "not":
            return _COMPARE if self.lexer.lookahead().kind == "in" else _LOOSEST
        return _PRECEDENCE.get(kind, _LOOSEST)

    # What an expression begins with

    def _first(self, precedence: int) -> t.Expr:
        lexer = self.lexer
        token, at = lexer.cur(), lexer.at()
        if token.kind in _REFUSED:
            raise refusal(_REFUSED[token.kind], at)
        if token.kind == "name":
            return t.Name(lexer.next().text, range=at)
        if token.kind == "number":
            return t.Constant(number_value(lexer.next().text, at), range=at)
        if token.kind in _CONSTANTS:
            lexer.next()
            return t.Constant(_CONSTANTS[token.kind], range=at)
        starts: dict[str, Callable[[], t.Expr]] = {
            "string": self._strings, "(": self._parentheses, "[": self._list, "{": self._dict
        }  # fmt: skip
        if token.kind in starts:
            return starts[token.kind]()
        if token.kind in ("-", "+", "~") or (token.kind == "not" and precedence < _NOT):
            lexer.next()
            operand = self.expression(_NOT - 1 if token.kind == "not" else _UNARY)
            return t.Unary(token.kind, operand, range=self.since(token.start))
        raise syntax_error(f"an expression is expected here, not {lexer.described()}", at)

    def _strings(self) -> t.Expr:
        """Read literals of strings, of which neighbours are one."""
        start, parts, formatted = self.start, list[t.Expr](), False
        while self.lexer.cur().kind == "string":
            at = self.lexer.at()
            prefix, _ = string_body(self.lexer.next().text)
            if "b" in prefix:
                raise refusal("bytes", at)
            formatted |= "f" in prefix
            parts += parts_of_string(at, partial(self._embedded, start))
        at = self.since(start)
        joined = _joined(parts, at)
        if formatted:
            return t.FormattedString(joined, range=at)
        return joined[0] if joined else t.Constant("", range=at)

    def _embedded(self, string: int, start: int) -> tuple[t.Expr, int]:
        """Read an expression of an f-string, and find the end of its closing brace.

        Args:
            string: the offset that the string begins at.
            start: the offset after the opening brace.
        """
        parser = type(self)(Lexer(self.lexer.file, layout=False, start=start))
        value = parser.expressions()
        if parser.lexer.cur().kind in ("!", ":", "=", ":="):
            raise refusal("format", self.lexer.file.range(string, start))
        return value, parser.lexer.expect("}").end

    def _parentheses(self) -> t.Expr:
        start = self.lexer.expect("(").start
        if self.lexer.next_if(")"):
            return t.TupleLiteral((), range=self.since(start))
        first = self.starred_or()
        if self.lexer.cur().kind in ("for", "async"):
            raise refusal("generator", self.lexer.file.range(start, start + 1))
        if self.lexer.cur().kind != "," and not isinstance(first, t.Starred):
            self._close(")")
            return first
        items = (first, *self._more(")"))
        return t.TupleLiteral(items, range=self.since(start))

    def _more(self, close: str) -> list[t.Expr]:
        """Read the items after the first one, and the bracket."""
        items = []
        while self.lexer.next_if(",") and self.lexer.cur().kind != close:
            items.append(self.starred_or())
        self._close(close)
        return items

    def _close(self, close: str) -> None:
        if self.lexer.cur().kind == ":=":
            raise refusal("walrus", self.lexer.at())
        self.lexer.expect(close)

    def _list(self) -> t.Expr:
        start = self.lexer.expect("[").start
        if self.lexer.next_if("]"):
            return t.ListLiteral((), range=self.since(start))
        first = self.starred_or()
        if self.lexer.cur().kind in ("for", "async"):
            target, iterable, conditions = self._comprehension(start, "]")
            at = self.since(start)
            return t.ListComprehension(first, target, iterable, conditions, range=at)
        items = (first, *self._more("]"))
        return t.ListLiteral(items, range=self.since(start))

    def _comprehension(self, start: int, close: str) -> tuple[t.Expr, t.Expr, tuple[t.Expr, ...]]:
        if self.lexer.cur().kind == "async":
            raise refusal("async", self.since(start))
        self.lexer.expect("for")
        target = assignable(self.targets_of_loop())
        self.lexer.expect("in")
        iterable, conditions = self.expression(_CONDITIONAL), []
        while self.lexer.next_if("if"):
            conditions.append(self.expression(_CONDITIONAL))
        if self.lexer.cur().kind in ("for", "async"):
            raise refusal("comprehension-loops", self.since(start))
        self._close(close)
        return target, iterable, tuple(conditions)

    def _dict(self) -> t.Expr:
        start = self.lexer.expect("{").start
        keys, values = list[t.Expr](), list[t.Expr]()
        while not self.lexer.next_if("}"):
            if self.lexer.next_if("**"):
                raise refusal("dict-unpacking", self.lexer.at())
            keys.append(self.starred_or())
            if self.lexer.cur().kind != ":":
                raise refusal("set", self.since(start))
            self.lexer.expect(":")
            values.append(self.expression())
            if self.lexer.cur().kind in ("for", "async") and len(keys) == 1:
                loop = self._comprehension(start, "}")
                return t.DictComprehension(keys[0], values[0], *loop, range=self.since(start))
            if not self.lexer.next_if(","):
                self._close("}")
                break
        return t.DictLiteral(tuple(keys), tuple(values), range=self.since(start))

    # What follows an operand

    def _extended(self, left: t.Expr, start: int) -> t.Expr:
        """Read one operator and what it binds to the operand on its left."""
        kind, lexer = self.lexer.cur().kind, self.lexer
        if kind == ":=":
            raise refusal("walrus", self.since(start))
        if kind in _LOGICAL:
            return self._logical("and" if lexer.next().kind == "and" else "or", left, start)
        if kind in _BINARY:
            lexer.next()
            right = self.expression(_UNARY if kind == "**" else _BINARY[kind])
            return t.Binary(kind, left, right, range=self.since(start))
        rules: dict[str, Callable[[t.Expr, int], t.Expr]] = {
            "if": self._conditional, "(": self._call, "[": self._subscript, ".": self._attribute
        }  # fmt: skip
        return rules.get(kind, self._compare)(left, start)

    def _logical(self, op: Literal["and", "or"], left: t.Expr, start: int) -> t.Expr:
        right = self.expression(_LOGICAL[op])
        return t.Logical(op, left, right, range=self.since(start))

    def _conditional(self, then: t.Expr, start: int) -> t.Expr:
        self.lexer.expect("if")
        condition = self.expression(_CONDITIONAL)
        self.lexer.expect("else")
        otherwise = self.expression()
        return t.Conditional(condition, then, otherwise, range=self.since(start))

    def _compare(self, first: t.Expr, start: int) -> t.Expr:
        rest = []
        while self._binds() == _COMPARE:
            op = self.lexer.next().kind
            if op == "not":
                self.lexer.expect("in")
                op = "not in"
            elif op == "is" and self.lexer.next_if("not"):
                op = "is not"
            rest.append((op, self._searched() if op.endswith("in") else self.expression(_COMPARE)))
        return t.Compare(first, tuple(rest), range=self.since(start))

    def _searched(self) -> t.Expr:
        """Read the right side of ``in``; a set that is only searched is as good as a tuple."""
        start, position = self.start, self.lexer.position
        if self.lexer.next_if("{") and self.lexer.cur().kind not in ("}", "**"):
            first = self.starred_or()
            items = (first, *self._more("}")) if self.lexer.cur().kind in (",", "}") else ()
            if items and self._binds() <= _COMPARE:
                return t.TupleLiteral(items, range=self.since(start))
        self.lexer.position = position
        return self.expression(_COMPARE)

    def _attribute(self, value: t.Expr, start: int) -> t.Expr:
        self.lexer.expect(".")
        name = self.lexer.expect("name").text
        return t.Attribute(value, name, range=self.since(start))

    def _subscript(self, value: t.Expr, start: int) -> t.Expr:
        self.lexer.expect("[")
        first, index = self.start, self._slice()
        if self.lexer.cur().kind == "," or isinstance(index, t.Starred):
            items = [index]
            while self.lexer.next_if(",") and self.lexer.cur().kind != "]":
                items.append(self._slice())
            index = t.TupleLiteral(tuple(items), range=self.since(first))
        self._close("]")
        return t.Subscript(value, index, range=self.since(start))

    def _slice(self) -> t.Expr:
        start = self.start
        lower = None if self.lexer.cur().kind == ":" else self.starred_or()
        if lower is not None and self.lexer.cur().kind != ":":
            return lower
        self.lexer.expect(":")
        upper = self._bound()
        step = self._bound() if self.lexer.next_if(":") else None
        return t.Slice(lower, upper, step, range=self.since(start))

    def _bound(self) -> t.Expr | None:
        return None if self.lexer.cur().kind in (":", ",", "]") else self.expression()

    def _call(self, function: t.Expr, start: int) -> t.Expr:
        open_bracket = self.lexer.expect("(").start
        arguments, keywords = list[t.Expr](), list[t.Keyword]()
        while not self.lexer.next_if(")"):
            if self.lexer.cur().kind == "**" or self.lexer.lookahead().kind == "=":
                keywords.append(self._keyword())
            else:
                arguments.append(self._argument(keywords))
            if self.lexer.cur().kind in ("for", "async"):
                raise refusal("generator", self.lexer.file.range(open_bracket, open_bracket + 1))
            if not self.lexer.next_if(","):
                self._close(")")
                break
        return t.Call(function, tuple(arguments), tuple(keywords), range=self.since(start))

    def _argument(self, keywords: list[t.Keyword]) -> t.Expr:
        start = self.start
        if self.lexer.next_if("*"):
            found: t.Expr = t.Starred(self.expression(), range=self.since(start))
            allowed = all(keyword.name is not None for keyword in keywords)
        else:
            found = self.expression()
            allowed = not keywords
        if not allowed:
            raise syntax_error("an argument by position follows one by keyword", found.range)
        return found

    def _keyword(self) -> t.Keyword:
        start = self.start
        name = None if self.lexer.next_if("**") else self.lexer.expect("name").text
        if name is not None:
            self.lexer.expect("=")
        return t.Keyword(name, self.expression(), range=self.since(start))


def assignable(target: t.Expr, *, nested: bool = True) -> t.Expr:
    """Return a target of an assignment after a check that it can be one.

    Raises:
        ScriptError: it is no name, attribute or subscript, and (if `nested`) no tuple of these.
    """
    match target:
        case t.Name() | t.Attribute() | t.Subscript():
            return target
        case t.Starred(value) if nested:
            assignable(value)
            return target
        case t.TupleLiteral(items) | t.ListLiteral(items) if nested:
            for item in items:
                assignable(item)
            return target
    raise syntax_error("nothing can be assigned to this", target.range)


def _joined(parts: list[t.Expr], at: SourceRange) -> tuple[t.Expr, ...]:
    """Return the parts of a string with neighbouring texts made one, and without empty ones."""
    found: list[t.Expr] = []
    for part in parts:
        match part, found[-1:]:
            case t.Constant(str(text)), [t.Constant(str(before)) as last] if last.range == at:
                found[-1] = t.Constant(before + text, range=at)
            case t.Constant(str(text)), _:
                found += [t.Constant(text, range=at)]
            case _:
                found.append(part)
    return tuple(part for part in found if part != t.Constant("", range=at))
