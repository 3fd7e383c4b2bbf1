"""Tokens: keywords, operators, literals and identifiers, and how each looks in a text."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_WORDS = """
False None True and as assert async await break class continue def del elif else except finally for
from global if import in is lambda nonlocal not or pass raise return try while with yield
"""
_SYMBOLS = """
**= //= >>= <<= ... -> := == != <= >= += -= *= /= %= @= &= |= ^= ** // >> <<
+ - * / % @ & | ^ ~ < > ( ) [ ] { } , : . ; = !
"""

KEYWORDS: Final = frozenset(_WORDS.split())
"""The words of Python's grammar; each is the kind of its own token."""

_DIGITS = r"\d(?:_?\d)*"
_NUMBER = (
    r"0[xX](?:_?[\da-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+"
    rf"|(?:(?:{_DIGITS}\.(?:{_DIGITS})?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?"
    rf"|{_DIGITS}(?:[eE][+-]?{_DIGITS})?)[jJ]?"
)
_STRING = (
    r"(?:[rR][bBfF]?|[bBfF][rR]?|[uU])?"
    r"(?:'''(?:[^\\]|\\.)*?'''|\"\"\"(?:[^\\]|\\.)*?\"\"\""
    r"|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")"
)


class Token(NamedTuple):
    """A piece of text that the grammar speaks of.

    Attributes:
        kind: the text itself for keywords and operators; else ``name``, ``number``, ``string``,
            ``newline``, ``indent``, ``dedent`` or ``end``.
        text: the characters.
        start: the offset of the first character.
        end: the offset after the last one.
    """

    kind: str
    text: str
    start: int
    end: int


def _pattern() -> re.Pattern[str]:
    """Return an expression with one group for each kind of token; `nothing` has no token."""
    symbols = "|".join(map(re.escape, sorted(_SYMBOLS.split(), key=len, reverse=True)))
    return re.compile(
        rf"(?P<nothing>[ \t\f]+|\\\r?\n|\#[^\n]*)|(?P<newline>\r?\n)|(?P<number>{_NUMBER})"
        rf"|(?P<string>{_STRING})|(?P<name>[^\W\d]\w*)|(?P<operator>{symbols})",
        re.DOTALL,
    )


TOKEN: Final = _pattern()
"""A token of a program."""
