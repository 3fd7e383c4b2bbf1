"""Schemas of operators and functions: names, types, defaults and aliasing of arguments and results.

    schema   ::= name[.overload](argument, ..., *, argument, ...) -> result | (result, ...)
    argument ::= type name[=default]
    type     ::= Tensor(a!)[]? | int[2] | SymInt | t | ...
    alias    ::= (set -> set)    a set is names with `|` between, or `*`; `!` says: written

`Tensor(a!)` is written to, a result `Tensor(a)` is a view of the argument with the same set, and
`(*)` may be any memory (TorchScript overview, "FunctionSchema" and "Aliasing annotations").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final

import torch

from minitorch2.script.ir.parse_type import TextReader, number_of, read_simple_type, read_string
from minitorch2.script.ir.print_ir import attribute_text
from minitorch2.script.ir.types import (
    FLOAT,
    INT,
    LAYOUT,
    MEMORY_FORMAT,
    SCALAR_TYPE,
    ListType,
    OptionalType,
    PrimitiveType,
    Type,
    map_contained,
)

WILDCARD: Final = "*"
SYMBOLIC_INT: Final = PrimitiveType("SymInt")


class _NoDefault:
    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = _NoDefault()


@dataclass(frozen=True)
class AliasInfo:
    """The memory of an argument or a result.

    Attributes:
        before: names of alias sets when the operator is called; `*` is any memory.
        after: the same when it is done; the same as `before`, but for arguments that get lost in a
            container (``Tensor(a -> *)``).
        is_write: whether the operator changes the memory.
        contained: the memory of a list's elements.
    """

    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    is_write: bool = False
    contained: AliasInfo | None = None

    def __str__(self) -> str:
        """Return the annotation of this level, which is empty if only elements have one."""
        if not self.before:
            return ""
        text = "|".join(sorted(self.before)) + "!" * self.is_write
        return f"({text})" if self.after == self.before else f"({text} -> {_set_text(self.after)})"

    @property
    def is_wildcard(self) -> bool:
        """Tell whether the memory may be any after the call."""
        return WILDCARD in self.after

    def levels(self) -> Iterator[AliasInfo]:
        """Iterate over the annotations of the value, its elements, and so on."""
        level: AliasInfo | None = self
        while level is not None:
            yield level
            level = level.contained


def _set_text(names: frozenset[str]) -> str:
    return "|".join(sorted(names))


@dataclass(frozen=True)
class Argument:
    """An argument, or a result, of a schema.

    Attributes:
        name: may be empty for a result.
        type: `SymInt` of the text is `int` here, and `symbolic` says so.
        default: a Python value, or `NO_DEFAULT`.
        alias: the memory; None for a value of its own.
        kwarg_only: whether it is given by name only.
        fixed_length: the number of elements that one number is broadcast to: 2 for ``int[2]``.
        symbolic: whether the text has `SymInt` where the type has `int`.
        default_text: the default as the text has it.
    """

    name: str
    type: Type
    default: Any = NO_DEFAULT
    alias: AliasInfo | None = None
    kwarg_only: bool = False
    fixed_length: int | None = None
    symbolic: bool = False
    default_text: str = field(default="", compare=False)

    @property
    def has_default(self) -> bool:
        """Tell whether a call may leave the argument out."""
        return self.default is not NO_DEFAULT

    @property
    def is_written(self) -> bool:
        """Tell whether the call changes the value, or an element of it."""
        return self.alias is not None and any(level.is_write for level in self.alias.levels())

    def type_text(self) -> str:
        """Return the type as the schema has it, with the alias annotations."""
        return self._text(self.type, self.alias)

    def _text(self, given: Type, alias: AliasInfo | None) -> str:
        match given:
            case ListType(element):
                inner = self._text(element, alias.contained if alias else None)
                return f"{inner}[{self.fixed_length or ''}]{alias or ''}"
            case OptionalType(element):
                return f"{self._text(element, alias)}?"
        name = "SymInt" if self.symbolic and given == INT else str(given)
        return f"{name}{alias or ''}"

    def __str__(self) -> str:
        text = f"{self.type_text()} {self.name}".rstrip()
        return (
            f"{text}={self.default_text or _literal_text(self.default)}"
            if self.has_default
            else text
        )


def _literal_text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal_text, value))}]"
    return attribute_text(value)


@dataclass(frozen=True)
class FunctionSchema:
    """The signature of an operator or a function.

    Attributes:
        name: a qualified name such as ``"aten::add"``; a function's is its plain name.
        overload: what tells it from others of the name, such as ``"Tensor"``; often empty.
        is_varargs: whether any further arguments are taken.
    """

    name: str
    overload: str
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...]
    is_varargs: bool = False
    is_varret: bool = False

    @property
    def full_name(self) -> str:
        """Return the name with the overload's: ``aten::add.Tensor``."""
        return f"{self.name}.{self.overload}" if self.overload else self.name

    @property
    def is_mutable(self) -> bool:
        """Tell whether a call changes an argument."""
        return any(argument.is_written for argument in self.arguments)

    def __str__(self) -> str:
        parts: list[str] = []
        for argument in self.arguments:
            if argument.kwarg_only and "*" not in parts:
                parts.append("*")
            parts.append(str(argument))
        arguments = ", ".join([*parts, "..."] if self.is_varargs else parts)
        return f"{self.full_name}({arguments}) -> {self._returns_text()}"

    def _returns_text(self) -> str:
        texts = [*map(str, self.returns), *["..."] * self.is_varret]
        plain = len(texts) == 1 and not texts[0].startswith("(")
        return texts[0] if plain else f"({', '.join(texts)})"


class SchemaReader(TextReader):
    """Reads a schema."""

    def schema(self) -> FunctionSchema:
        """Read the name, the arguments and the results."""
        name, _, overload = self.read("name").partition(".")
        self.expect("(")
        arguments, is_varargs = self._arguments()
        self.expect("->")
        returns, is_varret = self._returns()
        return FunctionSchema(name, overload, arguments, returns, is_varargs, is_varret)

    def _arguments(self) -> tuple[tuple[Argument, ...], bool]:
        kwarg_only = is_varargs = False
        found: list[Argument] = []

        def argument() -> None:
            nonlocal kwarg_only, is_varargs
            if self.accept("*"):
                kwarg_only = True
            elif self.accept("..."):
                is_varargs = True
            else:
                found.append(replace(self._argument(), kwarg_only=kwarg_only))

        self.listed(argument, ")")
        return tuple(found), is_varargs

    def _argument(self) -> Argument:
        made = self._typed()
        name = self.next().text  # may be any word, such as `self`
        if not self.accept("="):
            return replace(made, name=name)
        start = self.cur().start
        default = convert_default(self._literal(), made)
        text = self.file.text[start : self.last_end]
        return replace(made, name=name, default=default, default_text=text)

    def _typed(self) -> Argument:
        """Read a type, as an argument without a name."""
        length: int | None = None
        found: Type = read_simple_type(self, facts=False)
        alias = self._alias()
        while not self.sees("["):
            if not self.accept("?"):
                break
            found = OptionalType(found)
            alias = alias or self._alias()
        while self.sees("[") or self.sees("?"):
            if self.accept("?"):
                found = OptionalType(found)
                continue
            self.expect("[")
            length = int(self.read("number")) if self.cur().kind == "number" else length
            self.expect("]")
            found, outer = ListType(found), self._alias() or AliasInfo()
            alias = replace(outer, contained=alias) if outer.before or alias else None
        plain = _plain(found)
        return Argument("", plain, NO_DEFAULT, alias, False, length, plain != found)

    def _alias(self) -> AliasInfo | None:
        if not self.accept("("):
            return None
        before = self._alias_set()
        is_write = self.accept("!")
        after = self._alias_set() if self.accept("->") else before
        self.expect(")")
        return AliasInfo(before, after, is_write)

    def _alias_set(self) -> frozenset[str]:
        names = {self.next().text}
        while self.accept("|"):
            names.add(self.next().text)
        return frozenset(names)

    def _literal(self) -> Any:
        if self.accept("["):
            return self.listed(self._literal, "]")
        if self.cur().kind == "string":
            return read_string(self)
        if self.cur().kind == "number":
            return number_of(self.next().text)
        word = self.read("name")
        return {"None": None, "True": True, "False": False}.get(word, word)

    def _returns(self) -> tuple[tuple[Argument, ...], bool]:
        is_varret = False
        found: list[Argument] = []

        def result() -> None:
            nonlocal is_varret
            if self.accept("..."):
                is_varret = True
                return
            made = self._typed()
            name = self.next().text if self.cur().kind == "name" else ""
            found.append(replace(made, name=name))

        if self.sees("(") and not self._is_tuple_type():
            self.expect("(")
            self.listed(result, ")")
        else:
            result()
        return tuple(found), is_varret

    def _is_tuple_type(self) -> bool:
        """Tell whether the parentheses ahead are one tuple's: something comes after them."""
        depth = count = 0
        while self.ahead(count).kind != "end":
            depth += {"(": 1, ")": -1}.get(self.ahead(count).kind, 0)
            count += 1
            if depth == 0:
                return self.ahead(count).kind != "end"
        return False


def _plain(given: Type) -> Type:
    """Return a type in which symbolic ints are ints."""
    return INT if given == SYMBOLIC_INT else map_contained(given, _plain)


# Defaults that are names in a schema's text.
NAMED_DEFAULTS: Final[Mapping[Type, Mapping[str, Any]]] = {
    MEMORY_FORMAT: {
        name: getattr(torch, name) for name in ("contiguous_format", "preserve_format")
    },
    LAYOUT: {"strided": torch.strided},
    SCALAR_TYPE: {"long": torch.int64, "float": torch.float32},
}


def convert_default(value: Any, argument: Argument) -> Any:
    """Return a literal as a value of the argument's type: one number for a list is repeated."""
    wanted = argument.type
    if value is None:
        return None
    if isinstance(wanted, OptionalType):
        return convert_default(value, replace(argument, type=wanted.element))
    if isinstance(wanted, ListType):
        items = value if isinstance(value, list) else [value] * (argument.fixed_length or 1)
        return [convert_default(item, replace(argument, type=wanted.element)) for item in items]
    if wanted == FLOAT and isinstance(value, int):
        return float(value)
    return NAMED_DEFAULTS[wanted][value] if wanted in NAMED_DEFAULTS and _is_name(value) else value


def _is_name(value: Any) -> bool:
    return isinstance(value, str)


@cache
def parse_schema(text: str) -> FunctionSchema:
    """Return the schema that a text stands for; `str` gives the text back.

    Raises:
        ScriptError: the text is no schema.
    """
    return SchemaReader(text).schema()
