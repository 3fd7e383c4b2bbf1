"""The statement ``class`` in Python."""

from __future__ import annotations

import types
from collections.abc import Callable, MutableMapping
from typing import Any

_TYPES: Any = types


def evaluate_body(function: Callable[..., Any], namespace: MutableMapping[str, Any]) -> None:
    """Run the body of a class, whose variables lie in `namespace`; capture has a rule for it."""
    raise NotImplementedError


def build_class(
    function: Callable[..., Any], name: str, /, *bases: Any, metaclass: Any = None, **options: Any
) -> Any:
    """``builtins.__build_class__``"""
    resolved = types.resolve_bases(bases)
    if metaclass is None:
        metaclass = type(resolved[0]) if resolved else type
    if isinstance(metaclass, type):
        metaclass = _TYPES._calculate_meta(metaclass, resolved)
    prepare = getattr(metaclass, "__prepare__", None)
    namespace = {} if prepare is None else prepare(name, resolved, **options)
    evaluate_body(function, namespace)
    if resolved is not bases:
        namespace["__orig_bases__"] = bases
    return metaclass(name, resolved, namespace, **options)
