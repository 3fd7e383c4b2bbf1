"""The lexer: text to tokens, with INDENT, DEDENT and NEWLINE where a program has lines.

Programs are read with it (TorchScript overview, Lexer). Graphs, schemas and types are another
language with tokens of its own: their lexer, in `ir/parse_type.py`, is derived from this one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import ClassVar

from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.refusals import syntax_error
from minitorch2.script.syntax.source import SourceFile, SourceRange
from minitorch2.script.syntax.tokens import KEYWORDS, TOKEN, Token

_OPENING = frozenset("([{")
_CLOSING = frozenset(")]}")
_TAB = 8


class Lexer:
    """Walks through the tokens of a text. It reads no further than it is asked to.

    Args:
        file: the text.
        layout: whether lines mean something: tokens ``newline``, ``indent`` and ``dedent``, but
            not within brackets.
        start: the offset to begin at.

    Attributes:
        pattern: an expression with one group for each kind of token; the group ``nothing`` has no
            token, and the text of an ``operator`` is its kind.
        keywords: names that are kinds of their own.
        ignored: kinds of tokens that are left out without `layout`.
        position: how many tokens lie before the current one; assign it to go back.
        last_end: the offset after the token that was taken last.
    """

    pattern: ClassVar[re.Pattern[str]] = TOKEN
    keywords: ClassVar[frozenset[str]] = KEYWORDS
    ignored: frozenset[str] = frozenset({"newline"})

    def __init__(self, file: SourceFile, *, layout: bool = True, start: int = 0) -> None:
        self.file = file
        self.layout = layout
        self.position = 0
        self._read: list[Token] = []
        self._ahead = self._laid_out(start) if layout else self._plain(start)

    def cur(self) -> Token:
        """Return the current token; the last one has the kind ``end``."""
        return self._token(self.position)

    def lookahead(self) -> Token:
        """Return the token after the current one."""
        return self.ahead(1)

    def ahead(self, count: int) -> Token:
        """Return the token that comes so many after the current one."""
        return self._token(self.position + count)

    def next(self) -> Token:
        """Return the current token, and advance."""
        token = self.cur()
        self.position += 1
        return token

    def next_if(self, kind: str) -> Token | None:
        """Return the current token and advance if it is of a kind; else return None."""
        return self.next() if self.cur().kind == kind else None

    def expect(self, kind: str) -> Token:
        """Return the current token, which has to be of a kind, and advance.

        Raises:
            ScriptError: it is of another kind.
        """
        if self.cur().kind != kind:
            raise self.error(f"{kind} is expected here, not {self.described()}", self.at())
        return self.next()

    def error(self, message: str, where: SourceRange) -> ScriptError:
        """Return the error for text that follows no rule of the grammar."""
        return syntax_error(message, where)

    @property
    def last_end(self) -> int:
        return self._read[self.position - 1].end if self.position else 0

    def at(self, token: Token | None = None) -> SourceRange:
        """Return the range of a token, by default of the current one."""
        token = token or self.cur()
        return self.file.range(token.start, token.end)

    def described(self) -> str:
        """Return what a message calls the current token."""
        token = self.cur()
        layout = {"newline": "the end of the line", "indent": "more indentation",
                  "dedent": "less indentation", "end": "the end of the text"}  # fmt: skip
        return layout.get(token.kind, f"`{token.text}`")

    def _token(self, index: int) -> Token:
        while len(self._read) <= index:
            last = self._read[-1] if self._read else None
            self._read.append(next(self._ahead, last or self._end()))
        return self._read[index]

    def _end(self) -> Token:
        return Token("end", "", len(self.file.text), len(self.file.text))

    def _scan(self, start: int) -> Iterator[Token]:
        """Yield tokens with all ends of lines; spaces and comments have none."""
        text = self.file.text
        while start < len(text):
            match = self.pattern.match(text, start)
            if match is None:
                raise self._no_token(start)
            kind, found, start = str(match.lastgroup), match.group(), match.end()
            if kind == "operator" or found in self.keywords:
                kind = found
            if kind == "name" and not found.isascii():
                found = unicodedata.normalize("NFKC", found)
            if kind != "nothing":
                yield Token(kind, found, match.start(), start)

    def _no_token(self, start: int) -> ScriptError:
        letter = self.file.text[start]
        what = "a string that does not end" if letter in "'\"" else f"a character {letter!r}"
        return self.error(f"{what} is no part of the language", self.file.range(start, start + 1))

    def _plain(self, start: int) -> Iterator[Token]:
        yield from (token for token in self._scan(start) if token.kind not in self.ignored)
        yield self._end()

    def _laid_out(self, start: int) -> Iterator[Token]:
        """Yield tokens, and what the lines say: statements end, and blocks begin and end."""
        indents, depth, within = [0], 0, False
        for token in self._scan(start):
            if token.kind == "newline":
                if within and not depth:
                    within = False
                    yield token
                continue
            if not within:
                within = True
                yield from self._indentation(indents, token)
            depth += (token.kind in _OPENING) - (token.kind in _CLOSING)
            yield token
        end = self._end()
        if within:
            yield Token("newline", "", end.start, end.end)
        yield from (Token("dedent", "", end.start, end.end) for _ in indents[1:])
        yield end

    def _indentation(self, indents: list[int], first: Token) -> Iterator[Token]:
        """Yield the change of indentation before the first token of a line."""
        row = self.file.row(first.start)
        before = self.file.text[self.file.line_starts[row] : first.start]
        width = len(before.rpartition("\f")[2].expandtabs(_TAB))
        if width > indents[-1]:
            indents.append(width)
            yield Token("indent", before, first.start, first.start)
        while width < indents[-1]:
            indents.pop()
            yield Token("dedent", "", first.start, first.start)
        if width != indents[-1]:
            message = "the indentation is that of no block around this line"
            raise syntax_error(message, self.at(first))
