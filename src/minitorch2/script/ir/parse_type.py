"""Reads types, and the tokens that schemas and graphs are made of."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import torch

from minitorch2.script.ir.types import (
    DTYPES,
    ClassType,
    DictType,
    EnumType,
    FunctionType,
    FutureType,
    ListType,
    OptionalType,
    PrimitiveType,
    Size,
    TensorType,
    TupleType,
    Type,
    UnionType,
    VariableType,
)
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.lexer import Lexer
from minitorch2.script.syntax.source import SourceFile, SourceRange

T = TypeVar("T")

TOKEN: Final = re.compile(
    r"""
    (?P<nothing>[ \t]+) | (?P<place>\#[^\n]*) | (?P<newline>\n)
  | (?P<value>%[\w.]+)
  | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
  | (?P<number>-?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?(?![\w.])|-?inf\b|-?nan\b)
  | (?P<opaque><[^<>\n]*>)
  | (?P<name>@?[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)*)
  | (?P<operator>->|\.\.\.|[-()\[\]{},:=?!*|@.])
    """,
    re.VERBOSE,
)


class TextReader(Lexer):
    """Reads a text of the IR, in which no name is a keyword.

    Args:
        text: the text.
        lines: whether ends of lines and comments are tokens.
    """

    pattern = TOKEN
    keywords = frozenset()

    def __init__(self, text: str, *, lines: bool = False) -> None:
        self.ignored = frozenset() if lines else frozenset({"place", "newline"})
        super().__init__(SourceFile(text, "<text>"), layout=False)

    def sees(self, *texts: str) -> bool:
        """Tell whether the next tokens have these texts."""
        return all(self.ahead(place).text == text for place, text in enumerate(texts))

    def accept(self, text: str) -> bool:
        """Read the next token if it is the name or the operator with this text."""
        found = self.cur().text == text and self.cur().kind != "string"
        self.position += found
        return found

    def read(self, kind: str) -> str:
        """Read a token of a kind, and return its text."""
        return self.expect(kind).text

    def listed(self, item: Callable[[], T], end: str) -> list[T]:
        """Read items with commas between, to the closing operator."""
        items: list[T] = []
        while not self.accept(end):
            items.append(item())
            if not self.accept(","):
                self.expect(end)
                break
        return items

    def error(self, message: str, where: SourceRange | None = None) -> ScriptError:
        """Return the error for a text that is not in its grammar, by default for the next token."""
        return ScriptError(message, where or self.at(), code="script-text")


def read_string(reader: TextReader) -> str:
    """Read a string literal; its escapes are those of C and Python."""
    return str(ast.literal_eval(reader.read("string")))


def number_of(text: str) -> int | float:
    """Return the number that a token stands for."""
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


# -- types --------------------------------------------------------------------------------------

ALIASES: Final[Mapping[str, str]] = {"number": "Scalar", "None": "NoneType"}
PRIMITIVE_NAMES: Final = frozenset(("int", "float", "bool", "complex", "str", "number", "None"))


def read_type(reader: TextReader, *, facts: bool = True) -> Type:
    """Read a type with its `[]` and `?`.

    Args:
        reader: stands before the type.
        facts: whether parentheses after `Tensor` hold facts; in schemas they hold alias sets.
    """
    found = read_simple_type(reader, facts=facts)
    while True:
        if reader.sees("[", "]"):
            reader.position += 2
            found = ListType(found)
        elif reader.accept("?"):
            found = OptionalType(found)
        else:
            return found


def read_simple_type(reader: TextReader, *, facts: bool = True) -> Type:
    """Read a type without `[]` and `?` after it."""

    def inner() -> Type:
        return read_type(reader, facts=facts)

    if reader.accept("("):
        return TupleType(tuple(reader.listed(inner, ")")))
    name = reader.read("name")
    opened = reader.sees("(")
    if name in DTYPES or name == "Tensor":
        return _read_tensor(reader, name) if opened and facts else TensorType(DTYPES.get(name))
    if name == "Dict":
        reader.expect("(")
        return DictType(*reader.listed(inner, ")"))
    if name == "Union":
        reader.expect("(")
        return UnionType(tuple(reader.listed(inner, ")")))
    if name == "Future":
        reader.expect("(")
        return FutureType(*reader.listed(inner, ")"))
    for word, kind in (("Function", FunctionType), ("Enum", EnumType)):
        if name == word and reader.accept("("):
            (inner_name,) = reader.listed(lambda: reader.read("name"), ")")
            return kind(inner_name)
    if opened and facts and reader.ahead(2).text in (":", ")"):
        return _read_named_tuple(reader, name)
    return _named_type(name)


def _named_type(name: str) -> Type:
    if "." in name:
        return ClassType(name)
    if name in PRIMITIVE_NAMES or name[0].isupper():
        return PrimitiveType(ALIASES.get(name, name))
    return VariableType(name)


def _read_named_tuple(reader: TextReader, name: str) -> Type:
    def field() -> tuple[str, Type]:
        field_name = reader.read("name")
        reader.expect(":")
        return field_name, read_type(reader)

    reader.expect("(")
    fields = reader.listed(field, ")")
    names = tuple(field_name for field_name, _ in fields)
    return TupleType(tuple(found for _, found in fields), names, name)


def _read_tensor(reader: TextReader, name: str) -> Type:
    facts: dict[str, Any] = {"dtype": DTYPES.get(name)}
    sizes: list[Size] | None = []

    def fact() -> None:
        nonlocal sizes
        if reader.accept("..."):
            sizes = None
        elif reader.accept("requires_grad"):
            reader.expect("=")
            facts["requires_grad"] = reader.read("number") == "1"
        elif reader.accept("device"):
            reader.expect("=")
            facts["device"] = _read_device(reader)
        elif sizes is not None:
            sizes.append(_read_size(reader))

    reader.expect("(")
    reader.listed(fact, ")")
    return TensorType(**facts, sizes=None if sizes is None else tuple(sizes))


def _read_device(reader: TextReader) -> torch.device:
    name = reader.read("name")
    return torch.device(f"{name}:{reader.read('number')}" if reader.accept(":") else name)


def _read_size(reader: TextReader) -> Size:
    if reader.accept("*"):
        return None
    if reader.cur().kind == "number":
        return int(reader.next().text)
    return reader.read("name")


def parse_type(text: str) -> Type:
    """Return the type that a text stands for.

    Raises:
        ScriptError: the text is no type.
    """
    reader = TextReader(text)
    found = read_type(reader)
    reader.expect("end")
    return found
