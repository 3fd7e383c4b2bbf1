"""Questions that are answered while compiling: `isinstance`, `hasattr`, `getattr`."""

from __future__ import annotations

import typing
from collections import abc
from collections.abc import Sequence
from typing import Any, Final

import torch

from minitorch2.script.frontend.annotations import UnknownTypeError, type_from_object
from minitorch2.script.frontend.emission import UNKNOWN, Arguments, Emission, SugaredValue
from minitorch2.script.frontend.forms import form, only
from minitorch2.script.frontend.python_values import ObjectValue
from minitorch2.script.frontend.refine import members
from minitorch2.script.frontend.sugared import ConstantValue, TupleSugar, sugar
from minitorch2.script.ir.types import (
    ANY,
    BOOL,
    INT,
    STR,
    DictType,
    ListType,
    TensorType,
    TupleType,
    Type,
)
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.source import SourceRange

_CONTAINERS: Final[dict[Any, tuple[Any, ...]]] = {
    list: (ListType,),
    tuple: (TupleType,),
    dict: (DictType,),
    typing.List: (ListType,),  # noqa: UP006
    typing.Tuple: (TupleType,),  # noqa: UP006
    typing.Dict: (DictType,),  # noqa: UP006
    torch.Size: (ListType,),
    abc.Iterable: (ListType, TupleType, DictType, STR),
    abc.Sequence: (ListType, TupleType, STR),
    abc.Mapping: (DictType,),
}


def class_types(given: SugaredValue, where: SourceRange) -> list[Any]:
    """Return the types that the second argument of `isinstance` lists; classes for containers."""
    items = given.values if isinstance(given, TupleSugar) else None
    if items is not None:
        return [type_ for item in items for type_ in class_types(item, where)]
    found = given.constant()
    if found in _CONTAINERS:
        return list(_CONTAINERS[found])
    try:
        return [*members(type_from_object(found))]
    except UnknownTypeError:
        if isinstance(found, tuple):
            return [type_ for part in found for type_ in class_types(ObjectValue(part), where)]
        if not isinstance(found, type):
            what = "is no class that isinstance could ask for"
            raise given.refuse(what, where, code="script-wrong-type", fix="give a class") from None
        return [found]


def is_of(member: Type, wanted: Any) -> bool:
    """Tell whether a type is one that `isinstance` asks for."""
    if isinstance(wanted, type) and not issubclass(wanted, Type):
        python_class = getattr(getattr(member, "owner", None), "python_class", None)
        return python_class is not None and issubclass(python_class, wanted)
    if isinstance(wanted, type):
        return isinstance(member, wanted)
    return bool(
        member == wanted
        or (member, wanted) == (BOOL, INT)
        or (isinstance(member, TensorType) and isinstance(wanted, TensorType))
    )


@form(isinstance, "torch:isinstance", "minitorch2:isinstance")
def emit_isinstance(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``isinstance``, as a constant if the static type decides it."""
    given, classes = only(arguments, 2, "isinstance", where)
    wanted = class_types(classes, where)
    if not given.first_class:
        known, objects = given.constant(), _classes_of(classes)
        if known is not UNKNOWN:
            return ConstantValue(isinstance(known, objects))
        return ConstantValue(isinstance(given, TupleSugar) and TupleType in wanted)
    value = given.as_value(emission, where)
    inside = instance_members(value.type, wanted)
    if inside is not None and not (inside[0] and inside[1]):
        return ConstantValue(bool(inside[0]))
    types = tuple(wanted if inside is None else inside[0])
    node = emission.node("prim::isinstance", (value,), (BOOL,), where, types=types)
    return sugar(node.output)


def _classes_of(given: SugaredValue) -> Any:
    found = given.constant()
    return found if isinstance(found, type | tuple) else ()


def instance_members(type_: Type, wanted: Sequence[Any]) -> tuple[list[Type], list[Type]] | None:
    """Sort the types that a value may have into those that `isinstance` asks for, and others."""
    listed = members(type_)
    if ANY in listed:
        return None
    inside = [member for member in listed if any(is_of(member, want) for want in wanted)]
    return inside, [member for member in listed if member not in inside]


@form(hasattr)
def emit_hasattr(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Answer ``hasattr``."""
    given, name = only(arguments, 2, "hasattr", where)
    return ConstantValue(given.has_attr(_constant_name(name, where)))


@form(getattr)
def emit_getattr(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Emit ``getattr`` with a constant name."""
    count = 3 if len(arguments.positional) == 3 else 2
    given, name, *default = only(arguments, count, "getattr", where)
    known = _constant_name(name, where)
    if default and not given.has_attr(known):
        return default[0]
    return given.attr(emission, known, where)


def _constant_name(given: SugaredValue, where: SourceRange) -> str:
    name = given.constant()
    if not isinstance(name, str):
        raise given.refuse(
            "is no constant name of an attribute", where, code="script-constant-argument"
        )
    return name


@form(type)
def emit_type(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Refuse ``type(x)``: types are not values."""
    fix = "use `isinstance(x, T)`"
    raise ScriptError("`type` gives no value in a script", where, code="script-type-of", fix=fix)


@form(torch.is_tensor)
def emit_is_tensor(emission: Emission, arguments: Arguments, where: SourceRange) -> SugaredValue:
    """Answer ``torch.is_tensor``."""
    (given,) = only(arguments, 1, "torch.is_tensor", where)
    classes = ObjectValue(torch.Tensor)
    return emit_isinstance(emission, Arguments([given, classes]), where)
