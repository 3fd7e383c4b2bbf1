"""The types of arguments: a call with arguments of other types is refused before anything runs.

A graph is made for the types of its schema, and nothing in it looks at them again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from torch import Tensor
from torch.nn import Parameter

from minitorch2.errors import MinitorchError
from minitorch2.script.ir.types import (
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STR,
    ClassType,
    DictType,
    EnumType,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    is_module_type,
    type_of,
)
from minitorch2.script.operators.schema import Argument, FunctionSchema

Test: TypeAlias = Callable[[Any], bool]

PLAIN: Final = (bool, int, float, complex, str, type(None), list, tuple, dict, Tensor)
"""Classes that the language has types for; an object of another class is not judged."""
CLASSES_DECIDE: Final = frozenset({*PLAIN, Parameter} - {list, tuple, dict})
"""Classes whose objects all fit a type, or none does: what they contain is not looked at."""
CLASSES: Final[dict[Type, tuple[type, ...]]] = {
    BOOL: (bool,),
    INT: (int,),
    FLOAT: (int, float),
    COMPLEX: (int, float, complex),
    NUMBER: (int, float, complex, Tensor),
    STR: (str,),
    NONE: (type(None),),
}


class ArgumentTypeError(MinitorchError, TypeError):
    """A function of a script is called with an argument of another type than its parameter's."""

    default_code = "script-argument-type"


def test_of(kind: Type) -> Test:
    """Return the test for values of a type; it takes all values where nothing is known."""
    if isinstance(kind, TensorType):
        return lambda value: isinstance(value, Tensor) or not isinstance(value, PLAIN)
    if isinstance(kind, OptionalType):
        inner = test_of(kind.element)
        return lambda value: value is None or inner(value)
    if isinstance(kind, ListType):
        element = test_of(kind.element)
        return lambda value: isinstance(value, list | tuple) and all(map(element, value))
    if isinstance(kind, TupleType):
        return _test_of_tuple(kind)
    if isinstance(kind, DictType):
        key, item = test_of(kind.key), test_of(kind.value)
        return lambda value: (
            isinstance(value, dict) and all(map(key, value)) and all(map(item, value.values()))
        )
    if isinstance(kind, ClassType) and not is_module_type(kind):
        owner: Any = kind.owner
        return lambda value: isinstance(value, owner.python_class)
    if isinstance(kind, EnumType):
        wanted: Any = kind.python_class
        return lambda value: isinstance(value, wanted)
    classes = CLASSES.get(kind)
    if classes is None:
        return lambda value: True
    return lambda value: isinstance(value, classes) or not isinstance(value, PLAIN)


def _test_of_tuple(kind: TupleType) -> Test:
    elements = [test_of(element) for element in kind.elements]

    def test(value: Any) -> bool:
        if not isinstance(value, list | tuple) or len(value) != len(elements):
            return False
        return all(fits(part) for fits, part in zip(elements, value, strict=True))

    return test


def wrong_type(
    schema: FunctionSchema, parameter: Argument, value: Any, original: Any
) -> ArgumentTypeError:
    """Return the error of a value that is not of its parameter's type.

    Args:
        original: the Python function, whose first line is named; None if there is none.
    """
    code = getattr(original, "__code__", None)
    return ArgumentTypeError(
        f"{schema.name} takes a value of type {parameter.type} for {parameter.name!r}, and got"
        f" one of type {type_of(value)}",
        fix=f"pass such a value, or annotate {parameter.name!r} with the type that is passed",
        user_line=None if code is None else f"{code.co_filename}:{code.co_firstlineno}",
    )
