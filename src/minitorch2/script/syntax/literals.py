"""Values of literals: numbers, strings and the parts of f-strings."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator

from minitorch2.script.syntax.refusals import syntax_error
from minitorch2.script.syntax.source import SourceRange
from minitorch2.script.syntax.tree import Constant, Expr

_ESCAPES = {
    "\n": "", "\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "f": "\f", "n": "\n",
    "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip
_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|N\{([^}]*)\}|(.))",
    re.DOTALL,
)
_TEXT = re.compile(r"(?:\\N\{[^}]*\}|\\[^{}N]|\\|\{\{|\}\}|[^\\{}])+", re.DOTALL)
_RAW_TEXT = re.compile(r"(?:\{\{|\}\}|[^{}])+", re.DOTALL)


def number_value(text: str, at: SourceRange) -> int | float | complex:
    """Return the value of a literal: an int in any base, a float or an imaginary number.

    Raises:
        ScriptError: it has zeros before its digits, which Python forbids.
    """
    digits = text.replace("_", "")
    if digits[-1] in "jJ":
        return complex(digits)
    if not digits[:2].lower().startswith(("0x", "0o", "0b")) and set(digits) & set(".eE"):
        return float(digits)
    try:
        return int(digits, 0)
    except ValueError:
        raise syntax_error("a number does not begin with 0", at) from None


def string_body(token: str) -> tuple[str, str]:
    """Return the prefix of a literal in lower case, and its quotes."""
    quote = re.search("'''|\"\"\"|'|\"", token)
    assert quote is not None
    return token[: quote.start()].lower(), quote.group()


def parts_of_string(at: SourceRange, embedded: Callable[[int], tuple[Expr, int]]) -> Iterator[Expr]:
    """Yield the texts and the expressions of one literal.

    Args:
        at: where the literal stands.
        embedded: reads the expression that begins at an offset of the file; returns it, and the
            offset after its closing brace.
    """
    token = at.text()
    prefix, quote = string_body(token)
    start, end = at.start + len(prefix) + len(quote), at.end - len(quote)
    raw, source = "r" in prefix, at.file.text
    if "f" not in prefix:
        yield Constant(_decoded(source[start:end], raw, at), range=at)
        return
    pattern = _RAW_TEXT if raw else _TEXT
    while start < end:
        match = pattern.match(source, start, end)
        if match is not None:
            start = match.end()
            text = re.sub(r"(\\N\{[^}]*\})|\{\{|\}\}", _single_brace, match.group())
            yield Constant(_decoded(text, raw, at), range=at)
        elif source[start] == "}":
            raise syntax_error("a single `}` in an f-string", at)
        else:
            value, start = embedded(start + 1)
            yield value


def _single_brace(match: re.Match[str]) -> str:
    return match[1] or match[0][0]


def _decoded(text: str, raw: bool, at: SourceRange) -> str:
    if raw or "\\" not in text:
        return text
    try:
        return _ESCAPE.sub(_escaped, text)
    except (KeyError, ValueError, OverflowError):
        raise syntax_error("a string has an escape that names no character", at) from None


def _escaped(match: re.Match[str]) -> str:
    octal, two, four, eight, name, letter = match.groups()
    if octal:
        return chr(int(octal, 8))
    if name is not None:
        return unicodedata.lookup(name)
    code = two or four or eight
    if code:
        return chr(int(code, 16))
    if letter in "xuUN":
        raise ValueError(letter)
    return _ESCAPES.get(letter, match.group())
