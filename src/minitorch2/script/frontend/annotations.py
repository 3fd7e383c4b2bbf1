"""Types that a program writes: annotations, strings, type comments, and objects of `typing`."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from inspect import get_annotations
from typing import Any, Final

import torch

from minitorch2.script.frontend.resolver import MISSING, Resolver, text_resolver
from minitorch2.script.ir import types as ir
from minitorch2.script.syntax import tree as t
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.from_ast import expression_from_ast
from minitorch2.script.syntax.source import SourceFile, SourceRange

CLASSES: Final[dict[Any, ir.Type]] = {
    torch.Tensor: ir.TENSOR,
    torch.nn.Parameter: ir.TENSOR,
    int: ir.INT,
    float: ir.FLOAT,
    bool: ir.BOOL,
    torch.SymInt: ir.INT,
    torch.SymFloat: ir.FLOAT,
    torch.SymBool: ir.BOOL,
    complex: ir.COMPLEX,
    str: ir.STR,
    None: ir.NONE,
    type(None): ir.NONE,
    Any: ir.ANY,
    object: ir.ANY,
    torch.device: ir.DEVICE,
    torch.dtype: ir.SCALAR_TYPE,
    torch.layout: ir.LAYOUT,
    torch.memory_format: ir.MEMORY_FORMAT,
    torch.Generator: ir.GENERATOR,
    torch.Size: ir.ListType(ir.INT),
    list: ir.ListType(ir.TENSOR),
    typing.List: ir.ListType(ir.TENSOR),  # noqa: UP006
}
"""Types of classes without parameters."""

_FORMS: Final[dict[Any, Callable[..., ir.Type]]] = {
    list: ir.ListType,
    dict: ir.DictType,
    tuple: lambda *elements: ir.TupleType(() if elements == ((),) else elements),
    typing.Final: lambda element: element,
    typing.ClassVar: lambda element: element,
    typing.Annotated: lambda element, *_: element,
    torch.futures.Future: ir.FutureType,
}
CLASS_READERS: Final[list[Callable[[type], ir.Type | None]]] = []
"""What knows the types of users' classes: the room `modules`, which lies above, puts it here."""

_COMMENT: Final = re.compile(r"#\s*type:\s*(?!ignore)(.*?)\s*(#.*)?$", re.MULTILINE)
_BROADCAST: Final = "BroadcastingListCls"


class UnknownTypeError(Exception):
    """An object stands for no type of the language; the argument names it."""


class ForeignTypeError(UnknownTypeError):
    """A class or form of Python stands for no type of the language."""


def is_foreign(error: Exception) -> bool:
    """Tell whether an error is about an annotation that Python knows, and the language does not."""
    return isinstance(error, ForeignTypeError) or isinstance(error.__cause__, ForeignTypeError)


def type_from_object(given: Any) -> ir.Type:
    """Return the type that a Python object stands for, such as ``Optional[int]``.

    Raises:
        UnknownTypeError: it is no type of the language.
    """
    if isinstance(given, ir.Type):
        return given
    if _is_hashable(given) and given in CLASSES:
        return CLASSES[given]
    if isinstance(known := getattr(given, "script_type", None), ir.Type):
        return known
    if isinstance(given, type) and issubclass(given, tuple) and hasattr(given, "_fields"):
        return named_tuple_type(given)
    if isinstance(given, str):
        return _from_text(given)
    for read in CLASS_READERS if isinstance(given, type) else ():
        if (known := read(given)) is not None:
            return known
    if ir.is_enumeration(given):
        return ir.enum_type(given)
    origin = typing.get_origin(given)
    if origin in (typing.Union, types.UnionType):
        return _union(partial(type_from_object, part) for part in typing.get_args(given))
    if given in (typing.Dict, typing.Tuple):  # noqa: UP006
        raise UnknownTypeError(f"{given} without the types of its elements")
    if origin in _FORMS:
        return _FORMS[origin](*(_argument(part) for part in typing.get_args(given)))
    raise ForeignTypeError(getattr(given, "__qualname__", repr(given)))


def _union(members: Iterable[Callable[[], ir.Type]]) -> ir.Type:
    """Return the union of the members that the language knows: no graph gets one of the others.

    Classes that nobody has scripted do not count beside other types.

    Raises:
        ForeignTypeError: it knows none but None.
        ScriptError: a member is no type at all.
    """
    found, foreign = list[ir.Type](), list[Exception]()
    for member in members:
        try:
            found.append(member())
        except (ForeignTypeError, ScriptError) as error:
            if not is_foreign(error):
                raise
            foreign.append(error)
    if foreign and all(type_ == ir.NONE for type_ in found):
        raise foreign[0]
    declared = [type_ for type_ in found if not ir.is_undeclared(type_)]
    is_other = any(type_ != ir.NONE for type_ in declared)
    return ir.union_of(declared if is_other else found)


def _argument(part: Any) -> Any:
    return part if part == () else type_from_object(part)


def _from_text(text: str) -> ir.Type:
    expression = expression_from_ast(SourceFile(text, "<annotation>"))
    return type_of_annotation(expression, text_resolver())


def named_tuple_type(given: type) -> ir.TupleType:
    """Return the type of a NamedTuple class; fields without annotation are tensors."""
    names: tuple[str, ...] = getattr(given, "_fields")  # noqa: B009
    hints = {k: v for base in given.__mro__[::-1] for k, v in get_annotations(base).items()}
    elements = tuple(type_from_object(hints.get(name, torch.Tensor)) for name in names)
    return ir.TupleType(elements, names, given.__qualname__, given)


def _is_hashable(given: Any) -> bool:
    try:
        hash(given)
    except TypeError:
        return False
    return True


def type_of_annotation(expression: t.Expr, resolver: Resolver) -> ir.Type:
    """Return the type that an annotation means.

    Raises:
        ScriptError: it means no type of the language.
    """
    element = _broadcast_element(expression, resolver)
    if element is not None:
        return ir.ListType(type_of_annotation(element, resolver))
    try:
        return type_from_object(object_of(expression, resolver))
    except UnknownTypeError as error:
        message = f"{error.args[0]} is no type of the language"
        fix = "use Tensor, int, float, bool, str, List, Dict, Tuple, Optional or a NamedTuple"
        raise ScriptError(message, expression.range, code="script-unknown-type", fix=fix) from error


def known_annotation(expression: t.Expr | None, resolver: Resolver) -> ir.Type | None:
    """Return the type that an annotation means; None if it means one of Python's, too."""
    if expression is not None and _names_foreign(expression, resolver):
        return None
    try:
        return None if expression is None else type_of_annotation(expression, resolver)
    except ScriptError as error:
        if is_foreign(error):
            return None
        raise


def _names_foreign(expression: t.Expr, resolver: Resolver) -> bool:
    """Tell whether a part of an annotation is a class that the language has no type for."""
    match expression:
        case t.Subscript(_, index):
            return _names_foreign(index, resolver)
        case t.TupleLiteral(items) | t.ListLiteral(items):
            return any(_names_foreign(item, resolver) for item in items)
        case t.Binary("|", left, right):
            return _names_foreign(left, resolver) or _names_foreign(right, resolver)
    try:
        return _is_foreign_object(object_of(expression, resolver))
    except (UnknownTypeError, ScriptError) as error:
        return is_foreign(error)


def _is_foreign_object(given: Any) -> bool:
    parts = [part for part in typing.get_args(given) if part != ()]
    if parts:
        return any(map(_is_foreign_object, parts))
    try:
        return given is not ... and type_from_object(given) is None
    except ForeignTypeError:
        return True
    except (UnknownTypeError, ScriptError):
        return False


def _broadcast_element(expression: t.Expr, resolver: Resolver) -> t.Expr | None:
    """Return X of ``BroadcastingListN[X]``: a list, for which one X can stand."""
    if not isinstance(expression, t.Subscript) or not isinstance(expression.value, t.Name):
        return None
    found = resolver.resolve(expression.value.id)
    return expression.index if type(found).__name__ == _BROADCAST else None


def broadcast_length(expression: t.Expr | None, resolver: Resolver) -> int | None:
    """Return N of ``BroadcastingListN[X]``."""
    if isinstance(expression, t.Binary):  # BroadcastingListN[X] | None
        return broadcast_length(expression.left, resolver)
    if isinstance(expression, t.Subscript) and isinstance(expression.index, t.Subscript):
        return broadcast_length(expression.index, resolver)  # Optional[BroadcastingListN[X]]
    if isinstance(expression, t.Subscript) and _broadcast_element(expression, resolver):
        digits = re.sub(r"\D", "", getattr(expression.value, "id", ""))
        return int(digits) if digits else None
    return None


def object_of(expression: t.Expr, resolver: Resolver) -> Any:
    """Evaluate an expression that stands for a type."""
    match expression:
        case t.Name(name):
            found = resolver.resolve(name)
            if found is MISSING:
                found = text_resolver().resolve(name)
            if found is MISSING:
                raise UnknownTypeError(name)
            return found
        case t.Attribute(value, name):
            return _attribute(object_of(value, resolver), name)
        case t.Constant(value):
            return _constant_type(value, expression.range, resolver)
        case t.Subscript(value, index):
            return _subscript(object_of(value, resolver), index, resolver)
        case t.TupleLiteral(items) | t.ListLiteral(items):
            return tuple(_part(item, resolver) for item in items)
        case t.Binary("|", left, right):
            return _union(partial(type_of_annotation, part, resolver) for part in (left, right))
    raise UnknownTypeError(expression.range.text())


def _attribute(owner: Any, name: str) -> Any:
    if not hasattr(owner, name):
        raise UnknownTypeError(f"{getattr(owner, '__name__', owner)}.{name}")
    return getattr(owner, name)


def _constant_type(value: t.ConstantValue, where: SourceRange, resolver: Resolver) -> Any:
    if not isinstance(value, str):
        return value
    inner = expression_from_ast(replace(where.file, text=value))
    return type_of_annotation(inner, resolver)


def _part(item: t.Expr, resolver: Resolver) -> Any:
    return type_of_annotation(item, resolver)


def _subscript(form: Any, index: t.Expr, resolver: Resolver) -> ir.Type:
    """Apply a generic form to its arguments; these may be types that Python does not know."""
    items = index.items if isinstance(index, t.TupleLiteral) else (index,)
    if form is typing.Union:
        return _union(partial(type_of_annotation, item, resolver) for item in items)
    arguments = [type_of_annotation(item, resolver) for item in items]
    form = typing.get_origin(form) or form
    if form is typing.Optional:
        return ir.OptionalType(arguments[0])
    if form in _FORMS and not (form is tuple and items == (t.TupleLiteral((), range=index.range),)):
        return _FORMS[form](*arguments)
    if getattr(form, "__name__", "") == "Future":
        return ir.FutureType(arguments[0])
    raise ForeignTypeError(getattr(form, "__qualname__", repr(form)))


def comment_types(
    definition: t.Def, resolver: Resolver
) -> tuple[dict[str, ir.Type], ir.Type | None]:
    """Return types of parameters and of the result from a comment ``# type: (A, B) -> C``.

    Comments after single parameters count as well.
    """
    header_end = definition.body[0].range.start if definition.body else definition.range.end
    header = definition.range.file.text[definition.range.start : header_end]
    found, result = dict[str, ir.Type](), None
    for comment in _COMMENT.finditer(header):
        text = comment.group(1).strip()
        if text.startswith("ignore"):  # a word for type checkers
            continue
        if text.startswith("("):
            found, result = _signature(text, definition, resolver)
        else:
            before = [
                p
                for p in definition.parameters
                if p.range.start < definition.range.start + comment.start()
            ]
            if before:
                found[before[-1].name] = _comment_type(text, definition, resolver)
    return found, result


def _signature(
    text: str, definition: t.Def, resolver: Resolver
) -> tuple[dict[str, ir.Type], ir.Type | None]:
    arguments, _, result = text.rpartition("->")
    names = [parameter.name for parameter in definition.parameters]
    listed = _listed(arguments.strip(), definition)
    names = names[len(names) - len(listed) :] if len(names) >= len(listed) else names
    found = {
        name: type_of_annotation(item, resolver)
        for name, item in zip(names, listed)
        if not (isinstance(item, t.Constant) and item.value is ...)
    }
    return found, _comment_type(result.strip(), definition, resolver)


def _listed(arguments: str, definition: t.Def) -> tuple[t.Expr, ...]:
    expression = _read(arguments[:-1] + ",)" if arguments != "()" else "()", definition)
    assert isinstance(expression, t.TupleLiteral)
    return expression.items


def _comment_type(text: str, definition: t.Def, resolver: Resolver) -> ir.Type:
    return type_of_annotation(_read(text, definition), resolver)


def _read(text: str, definition: t.Def) -> t.Expr:
    file = definition.range.file
    return expression_from_ast(SourceFile(text, file.name, definition.range.line))
