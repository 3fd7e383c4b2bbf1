"""The question for the type of a value with those of its elements, where Python runs it."""

from __future__ import annotations

from typing import Any

from minitorch2.script.frontend.annotations import type_from_object
from minitorch2.script.runtime.meanings import is_instance


def isinstance(value: Any, kind: Any) -> bool:
    """Tell whether a value is of a type, as its elements are: ``isinstance(x, list[str])``.

    Compiled code knows the type behind the question. An empty container has elements of any type.

    Args:
        value: a value of the language.
        kind: a type such as ``dict[str, int]``, or a tuple of types.

    Raises:
        UnknownTypeError: `kind` is none of the language's types.
    """
    match kind:
        case tuple():
            return any(isinstance(value, each) for each in kind)
    return is_instance(value, type_from_object(kind))
