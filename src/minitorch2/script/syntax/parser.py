"""The parser: text to trees without Python's `ast`, for archives and for text that users give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from minitorch2.script.syntax import tree as t
from minitorch2.script.syntax.expression_parser import ExpressionParser, assignable
from minitorch2.script.syntax.lexer import Lexer
from minitorch2.script.syntax.refusals import refusal, syntax_error
from minitorch2.script.syntax.source import SourceFile, SourceRange

_REFUSED: Final = {
    "async": "async", "class": "class", "def": "def", "from": "import", "global": "global",
    "import": "import", "nonlocal": "nonlocal", "try": "try",
}  # fmt: skip
"""The entry of `REFUSALS` for each keyword that begins a statement of no tree."""
_AUGMENTED: Final = frozenset(
    ("+=", "-=", "*=", "/=", "//=", "%=", "@=", "&=", "|=", "^=", ">>=", "<<=", "**=")
)


def parse_function(file: SourceFile) -> t.Def:
    """Return the tree of the text of one function.

    Raises:
        ScriptError: the text is no function of the language.
    """
    match parse_module(file):
        case (t.Def() as found,):
            return found
    raise syntax_error("one function is expected: `def name(...): ...`", file.range())


def parse_module(
    file: SourceFile, *, nests: bool = False
) -> tuple[t.Def | t.ClassDef | t.Stmt, ...]:
    """Return the trees of a whole file: functions, classes and statements.

    Args:
        nests: whether functions stand within functions, as in files: what `fork` runs.
    """
    parser, found = Parser(Lexer(file), nests=nests), list[t.Def | t.ClassDef | t.Stmt]()
    while parser.lexer.cur().kind != "end":
        found += parser.definition()
    return tuple(found)


def parse_expression(file: SourceFile) -> t.Expr:
    """Return the tree of the text of one expression."""
    parser = Parser(Lexer(file, layout=False))
    found = parser.expressions()
    parser.lexer.expect("end")
    return found


class Parser(ExpressionParser):
    """Reads definitions and statements from a `Lexer`."""

    def __init__(self, lexer: Lexer, *, nests: bool = False) -> None:
        super().__init__(lexer)
        self._nests = nests
        self._end_of_block = 0

    # Definitions

    def definition(self) -> tuple[t.Def | t.ClassDef | t.Stmt, ...]:
        """Read a function, a class, or a line of statements."""
        decorators = self.decorators()
        if self.lexer.cur().kind == "class":
            return (self.class_definition(decorators),)
        return self.member(decorators)

    def decorators(self) -> tuple[t.Expr, ...]:
        found = []
        while self.lexer.next_if("@"):
            found.append(self.expression())
            self.lexer.expect("newline")
        return tuple(found)

    def function(self, decorators: tuple[t.Expr, ...]) -> t.Def:
        start = self.lexer.expect("def").start
        name = self.lexer.expect("name").text
        if self.lexer.cur().kind == "[":
            raise refusal("type-parameters", self.since(start))
        self.lexer.expect("(")
        parameters = self.parameters()
        returns = self.expression() if self.lexer.next_if("->") else None
        body = self.block()
        return t.Def(name, parameters, returns, body, decorators, range=self.since_block(start))

    def parameters(self) -> tuple[t.Param, ...]:
        """Read what stands between the brackets of ``def``, and the closing one."""
        found, kind, slashes = list[t.Param](), "positional", 0
        while not self.lexer.next_if(")"):
            at = self.lexer.at()
            if self.lexer.next_if("/"):
                slashes += 1
                if kind != "positional" or not found or slashes > 1:
                    raise syntax_error("`/` stands once, after a parameter by position", at)
            elif self.lexer.next_if("**"):
                found.append(self.parameter("kwargs"))
            elif self.lexer.next_if("*"):
                if kind != "positional":
                    raise syntax_error("a second `*`", at)
                kind = "keyword"
                if self.lexer.cur().kind != ",":
                    found.append(self.parameter("varargs"))
            else:
                found.append(self.parameter("keyword" if kind == "keyword" else "positional"))
                self._check_default(found)
            if not self.lexer.next_if(","):
                self.lexer.expect(")")
                break
        return tuple(found)

    def parameter(self, kind: t.ParamKind) -> t.Param:
        start, name = self.start, self.lexer.expect("name").text
        annotation = self.starred_or() if self.lexer.next_if(":") else None
        at = self.since(start)
        default = self.expression() if self.lexer.next_if("=") else None
        return t.Param(name, annotation, default, kind, range=at)

    def _check_default(self, found: list[t.Param]) -> None:
        *before, last = found
        defaults = any(each.default is not None for each in before)
        if last.kind == "positional" and last.default is None and defaults:
            raise syntax_error("a parameter without a default follows one that has one", last.range)
        if any(each.kind == "kwargs" for each in before):
            raise syntax_error("a parameter follows `**`", last.range)

    def class_definition(self, decorators: tuple[t.Expr, ...]) -> t.ClassDef:
        start = self.lexer.expect("class").start
        if decorators:
            raise refusal("class-decorator", self.since(start))
        name = self.lexer.expect("name").text
        if self.lexer.cur().kind == "[":
            raise refusal("type-parameters", self.since(start))
        bases = self.bases(start) if self.lexer.next_if("(") else ()
        body = list[t.Stmt | t.Def]()
        self.lexer.expect(":")
        if not self.lexer.next_if("newline"):
            body += self.statement_line()
        else:
            self.lexer.expect("indent")
            while not self.lexer.next_if("dedent"):
                body += self.member(self.decorators())
        return t.ClassDef(name, bases, tuple(body), range=self.since_block(start))

    def member(self, decorators: tuple[t.Expr, ...]) -> tuple[t.Stmt | t.Def, ...]:
        if self.lexer.cur().kind == "def":
            return (self.function(decorators),)
        return self.statements()

    def bases(self, start: int) -> tuple[t.Expr, ...]:
        found = []
        while not self.lexer.next_if(")"):
            if self.lexer.cur().kind == "**" or self.lexer.lookahead().kind == "=":
                raise refusal("class-keyword", self.since(start))
            found.append(self.starred_or())
            if not self.lexer.next_if(","):
                self.lexer.expect(")")
                break
        return tuple(found)

    # Statements

    def since_block(self, start: int) -> SourceRange:
        """Return the range from an offset to the end of the block that was read last."""
        return self.lexer.file.range(start, self._end_of_block)

    def block(self) -> tuple[t.Stmt, ...]:
        """Read ``:`` and the statements that belong together."""
        self.lexer.expect(":")
        if not self.lexer.next_if("newline"):
            return self.statement_line()
        self.lexer.expect("indent")
        found = list[t.Stmt]()
        while not self.lexer.next_if("dedent"):
            found += self.statements()
        return tuple(found)

    def statements(self) -> tuple[t.Stmt, ...]:
        """Read a compound statement, or a line of simple ones."""
        if self.decorators():
            raise refusal("async" if self.lexer.cur().kind == "async" else "def", self.lexer.at())
        rules: dict[str, Callable[[], t.Stmt]] = {
            "if": self.if_, "while": self.while_, "for": self.for_, "with": self.with_
        }  # fmt: skip
        if self._nests:
            rules["def"] = lambda: self.function(())
        rule = rules.get(self.lexer.cur().kind)
        return self.statement_line() if rule is None else (rule(),)

    def statement_line(self) -> tuple[t.Stmt, ...]:
        """Read simple statements with ``;`` between them."""
        found = [self.simple()]
        while self.lexer.next_if(";") and self.lexer.cur().kind != "newline":
            found.append(self.simple())
        self._end_of_block = self.lexer.last_end
        self.lexer.expect("newline")
        return tuple(found)

    def if_(self) -> t.Stmt:
        start = self.lexer.next().start
        condition, body = self.expression(), self.block()
        orelse: tuple[t.Stmt, ...] = ()
        if self.lexer.cur().kind == "elif":
            orelse = (self.if_(),)
        elif self.lexer.next_if("else"):
            orelse = self.block()
        return t.If(condition, body, orelse, range=self.since_block(start))

    def while_(self) -> t.Stmt:
        start = self.lexer.next().start
        condition, body = self.expression(), self.block()
        return t.While(condition, body, range=self._loop_range(start))

    def for_(self) -> t.Stmt:
        start = self.lexer.next().start
        target = assignable(self.targets_of_loop())
        self.lexer.expect("in")
        iterable, body = self.expressions(), self.block()
        return t.For(target, iterable, body, range=self._loop_range(start))

    def _loop_range(self, start: int) -> SourceRange:
        at = self.since_block(start)
        if self.lexer.next_if("else"):
            self.block()
            raise refusal("loop-else", at)
        return at

    def with_(self) -> t.Stmt:
        start = self.lexer.next().start
        items = self.items_in_brackets() or self.items()
        return t.With(items, self.block(), range=self.since_block(start))

    def items(self) -> tuple[t.WithItem, ...]:
        found = [self.item()]
        while self.lexer.next_if(","):
            if self.lexer.cur().kind == ")":
                break
            found.append(self.item())
        return tuple(found)

    def item(self) -> t.WithItem:
        start, context, target = self.start, self.expression(), None
        if self.lexer.next_if("as"):
            target = assignable(self.starred_or(5))
        return t.WithItem(context, target, range=self.since(start))

    def items_in_brackets(self) -> tuple[t.WithItem, ...] | None:
        """Read ``(a as b, c)`` if that is all before the colon."""
        position = self.lexer.position
        in_brackets = self.lexer.cur().kind == "(" and self._bracket_precedes_colon()
        self.lexer.position = position
        if not in_brackets:
            return None
        self.lexer.expect("(")
        items = self.items()
        self.lexer.expect(")")
        return items

    def _bracket_precedes_colon(self) -> bool:
        """Pass over a bracket; return whether it has items, and ``:`` follows."""
        depth, empty = 0, self.lexer.lookahead().kind == ")"
        while self.lexer.cur().kind not in ("end", "newline"):
            kind = self.lexer.next().kind
            depth += (kind in ("(", "[", "{")) - (kind in (")", "]", "}"))
            if not depth:
                return self.lexer.cur().kind == ":" and not empty
        return False

    def simple(self) -> t.Stmt:
        """Read a statement that stands within a line."""
        lexer, start, kind = self.lexer, self.start, self.lexer.cur().kind
        if kind in _REFUSED:
            raise refusal(_REFUSED[kind], lexer.at())
        single = {"break": t.Break, "continue": t.Continue, "pass": t.Pass}
        if kind in single:
            lexer.next()
            return single[kind](range=self.since(start))
        rules: dict[str, Callable[[], t.Stmt]] = {
            "return": self.return_, "raise": self.raise_, "assert": self.assert_, "del": self.delete
        }  # fmt: skip
        if kind in rules:
            return rules[kind]()
        begins = lexer.lookahead().kind in ("name", "number", "string")
        if begins and lexer.cur().text in ("match", "type"):
            raise refusal(lexer.cur().text, lexer.at())
        return self.assignment()

    def _ends(self) -> bool:
        return self.lexer.cur().kind in ("newline", ";")

    def return_(self) -> t.Stmt:
        start = self.lexer.next().start
        value = None if self._ends() else self.expressions()
        return t.Return(value, range=self.since(start))

    def raise_(self) -> t.Stmt:
        start = self.lexer.next().start
        value = None if self._ends() else self.expression()
        if self.lexer.cur().kind == "from":
            raise refusal("from-raise", self.since(start))
        return t.Raise(value, range=self.since(start))

    def assert_(self) -> t.Stmt:
        start = self.lexer.next().start
        test = self.expression()
        message = self.expression() if self.lexer.next_if(",") else None
        return t.Assert(test, message, range=self.since(start))

    def delete(self) -> t.Stmt:
        start, bare = self.lexer.next().start, self.lexer.cur().kind != "("
        found = assignable(self.expressions())
        targets = found.items if bare and isinstance(found, t.TupleLiteral) else (found,)
        return t.Delete(targets, range=self.since(start))

    def assignment(self) -> t.Stmt:
        """Read an assignment of any kind, or an expression."""
        lexer, start = self.lexer, self.start
        first = self.expressions()
        kind = lexer.cur().kind
        if kind == ":":
            return self.annotated(assignable(first, nested=False), start)
        if kind in _AUGMENTED:
            target = assignable(first, nested=False)
            op = lexer.next().text.removesuffix("=")
            return t.AugmentedAssign(target, op, self.expressions(), range=self.since(start))
        chain = [first]
        while lexer.next_if("="):
            chain.append(self.expressions())
        if len(chain) == 1:
            return t.ExpressionStatement(first, range=self.since(start))
        targets = tuple(assignable(target) for target in chain[:-1])
        return t.Assign(targets, chain[-1], None, range=self.since(start))

    def annotated(self, target: t.Expr, start: int) -> t.Stmt:
        self.lexer.expect(":")
        annotation = self.expression()
        value = self.expressions() if self.lexer.next_if("=") else None
        return t.Assign((target,), value, annotation, range=self.since(start))
